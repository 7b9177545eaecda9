package nbmp

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// clusterFunction is an object of the nagare media engine. Its template has types of Kubernetes.
type clusterFunction struct {
	meta.TypeMeta `json:",inline"`
	Metadata      meta.ObjectMeta `json:"metadata"`
	Spec          struct {
		Version  string                `json:"version"`
		Template batch.JobTemplateSpec `json:"template"`
	} `json:"spec"`
}

// objects decodes the documents of a file strictly: fields that a type does not have are refused.
func objects[T any](t *testing.T, path string) []T {
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []T
	for _, document := range strings.Split(string(content), "\n---\n") {
		var object T
		if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		all = append(all, object)
	}
	return all
}

func TestKubernetesObjectsDecodeStrictly(t *testing.T) {
	configuration := objects[core.ConfigMap](t, "kubernetes/task-shim.yaml")[0]
	job := objects[batch.Job](t, "../../deploy/load/job.yaml")[0]
	if job.Kind != "Job" || len(job.Spec.Template.Spec.Containers) != 1 {
		t.Errorf("job.yaml is not a job with one container: %+v", job)
	}
	known := map[string]bool{}
	for _, function := range objects[clusterFunction](t, "kubernetes/functions.yaml") {
		name := function.Metadata.Name
		known[name] = true
		pod := function.Spec.Template.Spec.Template.Spec
		if function.Kind != "ClusterFunction" || function.APIVersion != "engine.nagare.media/v1alpha1" {
			t.Errorf("%s: %s of %s", name, function.Kind, function.APIVersion)
		}
		if pod.RestartPolicy != core.RestartPolicyNever || len(pod.Containers) != 1 || len(pod.Volumes) != 3 {
			t.Errorf("%s: %+v", name, pod)
		}
		if pod.Volumes[0].ConfigMap == nil || pod.Volumes[0].ConfigMap.Name != configuration.Name {
			t.Errorf("%s does not mount %s", name, configuration.Name)
		}
	}
	// Documents name no other functions. Engines start no players: only `latemux lab run` does.
	known["latemux-player"] = true
	named := regexp.MustCompile(`ClusterFunction/([a-z-]+)`)
	for _, path := range documents(t, ".wdd") {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range named.FindAllStringSubmatch(string(content), -1) {
			if !known[match[1]] {
				t.Errorf("%s: no object %s", filepath.Base(path), match[1])
			}
		}
	}
}

// Each function has a label of its own, so that any of them can be placed on other nodes than the rest.
func TestEachFunctionIsPlacedByItsOwnLabel(t *testing.T) {
	for _, function := range objects[clusterFunction](t, "kubernetes/functions.yaml") {
		name := function.Metadata.Name
		label := "latemux-lab/" + strings.TrimPrefix(name, "latemux-")
		if problems := validation.IsQualifiedName(label); len(problems) != 0 {
			t.Errorf("%s: %s: %v", name, label, problems)
		}
		selector := function.Spec.Template.Spec.Template.Spec.NodeSelector
		if !maps.Equal(selector, map[string]string{label: "true"}) {
			t.Errorf("%s: the nodeSelector is %v", name, selector)
		}
	}
}
