# The gateway: uid 10000, a root file system that may be read-only, no compiler, no package manager of its own. The
# modules that every message passes are compiled, in a stage of which nothing else is left.
#   docker build -t keyline .    on a registry's Python
#   make image                   the same without a registry: on a root made here, from wheels fetched before
# Every package and its hash are in requirements.txt; `make pins` updates them, and writes
# the digest of the base behind its tag where a registry tells it.
ARG BASE=python:3.11-slim-bookworm
# The same Python with a C compiler and its headers. Without them, and half as fast, in pure Python:
#   docker build -t keyline --build-arg BUILD_BASE=python:3.11-slim-bookworm --build-arg KEYLINE_COMPILE=0 .
ARG BUILD_BASE=python:3.11-bookworm

FROM ${BUILD_BASE} AS build
# Whether the wheel has compiled modules: see hatch_build.py.
ARG KEYLINE_COMPILE=1
# Set where there is no index: everything is among the wheels then.
ARG PIP_NO_INDEX
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_FIND_LINKS=/wheels
# The directory is there after `make image` only, which is what its pattern is for.
COPY requirements.txt requirements-build.txt build/wheel[s] /wheels/
RUN python3 -m venv /tools && python3 -m venv --without-pip /opt/keyline \
 && /tools/bin/python3 -m pip install --quiet --require-hashes --only-binary :all: -r /wheels/requirements-build.txt \
 && /tools/bin/python3 -m pip --python /opt/keyline/bin/python3 \
      install --quiet --require-hashes --only-binary :all: -r /wheels/requirements.txt
WORKDIR /src
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY admin_api admin_api
COPY keyline_gateway keyline_gateway
COPY proxy proxy
COPY spark_reports spark_reports
# Headers and tests of numpy and Arrow: 12 MiB that are not used.
RUN /tools/bin/python3 -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /own . \
 && /tools/bin/python3 -m pip --python /opt/keyline/bin/python3 install --quiet --no-deps --no-index /own/keyline_gateway-*.whl \
 && find /opt/keyline/lib -type d \( -path '*/pyarrow/include' -o -path '*/pyarrow/tests' -o -path '*/numpy/*/tests' \
      -o -path '*/numpy/tests' \) -prune -exec rm -r {} +

FROM ${BASE}
RUN groupadd --gid 10000 keyline \
 && useradd --uid 10000 --gid 10000 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin keyline
COPY --from=build /opt/keyline /opt/keyline
COPY helm/image.toml /etc/keyline/keyline.toml
ENV PATH=/opt/keyline/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 KEYLINE_CONFIG=/etc/keyline/keyline.toml
LABEL org.opencontainers.image.title=Keyline \
      org.opencontainers.image.description="A consumer gateway in front of Apache Pulsar" \
      org.opencontainers.image.licenses=Apache-2.0
USER 10000:10000
EXPOSE 6660 8750
# Checks the gateway, not its broker: a restart during a broker outage would close the workers' connections.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s CMD ["python3", "-m", "keyline_gateway.health"]
ENTRYPOINT ["keyline"]
CMD ["serve"]
