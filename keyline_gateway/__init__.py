"""The one name that an installation of Keyline has among others' packages: its commands, and `client` for applications.

The gateway's own packages are called `proxy`, `admin_api` and `spark_reports`. Beside them other projects' packages of
these names may be installed (proxy.py is one), so a wheel has ours below `keyline_gateway/packages`, where they are in
no other program's way. Only our own commands see that folder: `start` puts it first on their path.

Rule: importing this package changes nothing, so that an application can have `keyline_gateway.client` beside proxy.py.
"""
