// All programs of a Kubernetes node in one, told apart by the name it is called by.
//
// Kubernetes, etcd and CoreDNS publish programs and images where machines that run the tests do not reach; as Go modules
// they can be had anywhere. One program is linked once and shares what they have in common.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

var commands = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllers.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kube-proxy":              proxy.NewProxyCommand,
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	"kubectl":                 cmd.NewDefaultKubectlCommand,
}

func main() {
	name := filepath.Base(os.Args[0])
	if command, ok := commands[name]; ok {
		os.Exit(cli.Run(command()))
	}
	switch name {
	case "etcd":
		etcdmain.Main(os.Args)
	case "coredns":
		coremain.Run()
	default:
		fmt.Fprintf(os.Stderr, "%s is no program of a node\n", name)
		os.Exit(2)
	}
}
