package nbmp

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const chart = "../../deploy/helm/latemux"

// serviceMonitor is an object of the operator of Prometheus.
type serviceMonitor struct {
	meta.TypeMeta `json:",inline"`
	Metadata      meta.ObjectMeta `json:"metadata"`
	Spec          struct {
		Selector  meta.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port     string `json:"port"`
			Path     string `json:"path"`
			Interval string `json:"interval"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// helm runs a command, and skips the test if helm is not installed.
func helm(t *testing.T, arguments ...string) (string, error) {
	program, err := exec.LookPath("helm")
	if err != nil {
		t.Skip("SKIPPED: helm is not installed")
	}
	output, err := exec.Command(program, arguments...).CombinedOutput()
	return string(output), err
}

// render returns the objects of the chart by their kind, decoded strictly: fields that a type does
// not have are refused.
func render(t *testing.T, values ...string) map[string]any {
	arguments := []string{"template", "films", chart}
	for _, value := range values {
		arguments = append(arguments, "--set", value)
	}
	text, err := helm(t, arguments...)
	if err != nil {
		t.Fatal(text)
	}
	objects := map[string]any{}
	for _, document := range strings.Split(text, "\n---\n") {
		var head meta.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &head); err != nil {
			t.Fatalf("%v: %s", err, document)
		}
		types := map[string]any{
			"apps/v1 Deployment":                      &apps.Deployment{},
			"autoscaling/v2 HorizontalPodAutoscaler":  &autoscaling.HorizontalPodAutoscaler{},
			"v1 ConfigMap":                            &core.ConfigMap{},
			"v1 Service":                              &core.Service{},
			"v1 ServiceAccount":                       &core.ServiceAccount{},
			"policy/v1 PodDisruptionBudget":           &policy.PodDisruptionBudget{},
			"networking.k8s.io/v1 NetworkPolicy":      &networking.NetworkPolicy{},
			"networking.k8s.io/v1 Ingress":            &networking.Ingress{},
			"monitoring.coreos.com/v1 ServiceMonitor": &serviceMonitor{},
		}
		object, known := types[head.APIVersion+" "+head.Kind]
		if !known {
			t.Fatalf("unknown object %s %s", head.APIVersion, head.Kind)
		}
		if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
			t.Errorf("%s: %v", head.Kind, err)
		}
		objects[head.Kind] = object
	}
	return objects
}

func TestChartPassesItsOwnLinter(t *testing.T) {
	if text, err := helm(t, "lint", "--strict", "--set", "source=s3://vod", chart); err != nil {
		t.Error(text)
	}
	if text, err := helm(t, "template", chart); err == nil || !strings.Contains(text, "source is missing") {
		t.Errorf("a chart without a source is not refused: %s", text)
	}
}

func TestChartObjectsDecodeStrictly(t *testing.T) {
	objects := render(t, "source=s3://vod", "serviceMonitor.enabled=true", "ingress.enabled=true",
		"ingress.tlsSecret=tls", "cacheDisk=50", "secrets[0]=keys", "http.max_connections=5000",
		`cache.unit=256KiB`, `serviceAccount.annotations.eks\.amazonaws\.com/role-arn=arn`)
	if len(objects) != 9 {
		t.Errorf("%d kinds of objects", len(objects))
	}
	deployment := objects["Deployment"].(*apps.Deployment)
	pod := deployment.Spec.Template.Spec
	container := pod.Containers[0]
	// 1.1 times the sum of 1024, 512, 64, 64, 64, 0, 512 and 512 MiB, and 64 MiB.
	if limit := container.Resources.Limits.Memory().Value(); limit != (2752*11/10+64)<<20 {
		t.Errorf("memory limit: %d", limit)
	}
	if !*container.SecurityContext.ReadOnlyRootFilesystem || *pod.SecurityContext.RunAsUser != 65532 {
		t.Errorf("not confined: %+v", container.SecurityContext)
	}
	text := objects["ConfigMap"].(*core.ConfigMap).Data["latemux.toml"]
	for _, line := range []string{
		`source = "s3://vod"`, `index = "512MiB"`, `disk = "45GiB"`, `max_connections = 5000`,
		`unit = "256KiB"`, `drain_delay = "10s"`, `drain_timeout = "30s"`,
	} {
		if !strings.Contains(text+"\n", line+"\n") {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
	if *pod.TerminationGracePeriodSeconds != 43 {
		t.Errorf("grace period: %d", *pod.TerminationGracePeriodSeconds)
	}
	// Labels by which other objects find the pods.
	found := fmt.Sprint(deployment.Spec.Template.Labels)
	for kind, labels := range map[string]map[string]string{
		"Service":             objects["Service"].(*core.Service).Spec.Selector,
		"NetworkPolicy":       objects["NetworkPolicy"].(*networking.NetworkPolicy).Spec.PodSelector.MatchLabels,
		"PodDisruptionBudget": objects["PodDisruptionBudget"].(*policy.PodDisruptionBudget).Spec.Selector.MatchLabels,
		"ServiceMonitor":      objects["ServiceMonitor"].(*serviceMonitor).Spec.Selector.MatchLabels,
	} {
		if fmt.Sprint(labels) != found {
			t.Errorf("%s selects %v, pods have %s", kind, labels, found)
		}
	}
	if scaled := objects["HorizontalPodAutoscaler"].(*autoscaling.HorizontalPodAutoscaler); scaled.Spec.ScaleTargetRef.Name != deployment.Name {
		t.Errorf("scales %s", scaled.Spec.ScaleTargetRef.Name)
	}
}

func TestChartOmitsWhatIsOff(t *testing.T) {
	objects := render(t, "source=s3://vod", "autoscaling.enabled=false", "networkPolicy.enabled=false")
	for _, kind := range []string{"HorizontalPodAutoscaler", "NetworkPolicy", "Ingress", "ServiceMonitor"} {
		if objects[kind] != nil {
			t.Errorf("%s is there", kind)
		}
	}
	if replicas := objects["Deployment"].(*apps.Deployment).Spec.Replicas; replicas == nil || *replicas != 2 {
		t.Errorf("replicas: %v", replicas)
	}
	image := objects["Deployment"].(*apps.Deployment).Spec.Template.Spec.Containers[0].Image
	if !regexp.MustCompile(`^latemux:\d+\.\d+\.\d+$`).MatchString(image) {
		t.Errorf("image: %s", image)
	}
}
