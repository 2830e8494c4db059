// Program go-manager prints the flags and the feature gates of a cloud controller manager on the Go framework, one on each line
// with tabs between its fields. Manifests for a Go program may hold all of them; `record` writes them down.
package main

import (
	"fmt"
	"log"
	"runtime/debug"
	"sort"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/featuregate"
	_ "k8s.io/component-base/logs/json/register"
)

func main() {
	settings, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		log.Fatalf("cannot make the options: %v", err)
	}
	noCloud := func(*config.CompletedConfig) cloudprovider.Interface { return nil }
	command := app.NewCloudControllerManagerCommand(
		settings, noCloud, app.DefaultInitFuncConstructors, names.CCMControllerAliases(), cliflag.NamedFlagSets{}, wait.NeverStop)
	// The section of the help comes from the framework, which gives what has none to "global".
	sections := map[string]string{}
	fresh, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		log.Fatalf("cannot make the options: %v", err)
	}
	named := fresh.Flags(nil, nil, nil, nil, nil)
	for _, section := range named.Order {
		named.FlagSets[section].VisitAll(func(flag *pflag.Flag) { sections[flag.Name] = section })
	}
	fmt.Printf("# Flags and feature gates of a manager on k8s.io/cloud-provider %s, as tests/go-manager/record writes them down.\n", version())
	fmt.Println("# flag, section of the help, type, default, deprecated or hidden")
	command.Flags().VisitAll(func(flag *pflag.Flag) {
		section, shown := sections[flag.Name], ""
		if section == "" {
			section = "global"
		}
		if flag.Hidden {
			shown = "hidden"
		}
		if flag.Deprecated != "" {
			shown = "deprecated"
		}
		fmt.Printf("flag\t%s\t%s\t%s\t%s\t%s\n", flag.Name, section, flag.Value.Type(), flag.DefValue, shown)
	})
	fmt.Println("# gate, stage, default, locked")
	gates := utilfeature.DefaultMutableFeatureGate.GetAll()
	var sorted []string
	for name := range gates {
		sorted = append(sorted, string(name))
	}
	sort.Strings(sorted)
	for _, name := range sorted {
		gate, locked := gates[featuregate.Feature(name)], ""
		if gate.LockToDefault {
			locked = "locked"
		}
		stage := string(gate.PreRelease)
		if stage == "" {
			stage = "GA"
		}
		fmt.Printf("gate\t%s\t%s\t%t\t%s\n", name, stage, gate.Default, locked)
	}
}

// version returns the version of the framework that this program is built with.
func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "k8s.io/cloud-provider" {
			return module.Version
		}
	}
	return "of an unknown version"
}
