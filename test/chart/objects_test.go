package chart

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	yamlstream "k8s.io/apimachinery/pkg/util/yaml"
)

// scaledObject is a ScaledObject of keda.sh/v1alpha1 as documented by KEDA, whose own types require the libraries of
// many clouds.
type scaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		ScaleTargetRef  autoscalingv2.CrossVersionObjectReference `json:"scaleTargetRef"`
		PollingInterval *int32                                    `json:"pollingInterval,omitempty"`
		CooldownPeriod  *int32                                    `json:"cooldownPeriod,omitempty"`
		MinReplicaCount *int32                                    `json:"minReplicaCount,omitempty"`
		MaxReplicaCount *int32                                    `json:"maxReplicaCount,omitempty"`
		Advanced        struct {
			RestoreToOriginalReplicaCount bool `json:"restoreToOriginalReplicaCount,omitempty"`
			HorizontalPodAutoscalerConfig struct {
				Name     string                                         `json:"name,omitempty"`
				Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior,omitempty"`
			} `json:"horizontalPodAutoscalerConfig,omitempty"`
		} `json:"advanced,omitempty"`
		Triggers []struct {
			Type       string            `json:"type"`
			Name       string            `json:"name,omitempty"`
			Metadata   map[string]string `json:"metadata"`
			MetricType string            `json:"metricType,omitempty"`
		} `json:"triggers"`
	} `json:"spec"`
}

// DeepCopyObject implements runtime.Object for the scheme; nobody here copies.
func (s *scaledObject) DeepCopyObject() runtime.Object { return s }

// decoder decodes the kinds of objects that the chart renders, and refuses unknown and repeated fields.
var decoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, autoscalingv2.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme,
		networkingv1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme, monitoringv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledObject"},
		&scaledObject{})
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}()

// objects are the objects of a rendered chart.
type objects struct{ all []runtime.Object }

// decode decodes a stream of YAML documents.
func decode(t *testing.T, stream string) *objects {
	t.Helper()
	o := &objects{}
	reader := yamlstream.NewYAMLReader(bufio.NewReader(strings.NewReader(stream)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			require.NotEmpty(t, o.all)
			return o
		}
		require.NoError(t, err)
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		object, _, err := decoder.Decode(document, nil, nil)
		require.NoError(t, err, "%s", document)
		o.all = append(o.all, object)
	}
}

// of returns the objects of a type.
func of[T runtime.Object](o *objects) []T {
	var found []T
	for _, object := range o.all {
		if typed, ok := object.(T); ok {
			found = append(found, typed)
		}
	}
	return found
}

// named returns the object of a type and a name.
func named[T interface {
	runtime.Object
	metav1.Object
}](t *testing.T, o *objects, name string) T {
	t.Helper()
	for _, object := range of[T](o) {
		if object.GetName() == name {
			return object
		}
	}
	var none T
	require.Failf(t, "not rendered", "%T %s", none, name)
	return none
}

// podTemplate is a pod, or the template of pods, with its owner.
type podTemplate struct {
	owner    metav1.Object
	kind     string
	meta     metav1.ObjectMeta
	spec     corev1.PodSpec
	selector *metav1.LabelSelector // the owner's selector of its pods; nil if there is none
}

// pods returns the templates of all pods.
func (o *objects) pods() []podTemplate {
	var all []podTemplate
	for _, object := range o.all {
		switch w := object.(type) {
		case *appsv1.Deployment:
			all = append(all, podTemplate{
				w, "Deployment", w.Spec.Template.ObjectMeta, w.Spec.Template.Spec,
				w.Spec.Selector,
			})
		case *appsv1.DaemonSet:
			all = append(all, podTemplate{
				w, "DaemonSet", w.Spec.Template.ObjectMeta, w.Spec.Template.Spec,
				w.Spec.Selector,
			})
		case *appsv1.StatefulSet:
			all = append(all, podTemplate{
				w, "StatefulSet", w.Spec.Template.ObjectMeta, w.Spec.Template.Spec,
				w.Spec.Selector,
			})
		case *batchv1.Job:
			all = append(all, podTemplate{w, "Job", w.Spec.Template.ObjectMeta, w.Spec.Template.Spec, nil})
		case *corev1.Pod:
			all = append(all, podTemplate{w, "Pod", w.ObjectMeta, w.Spec, nil})
		}
	}
	return all
}

// selected returns the owners of the pods that a selector finds, as KIND/NAME.
func (o *objects) selected(t *testing.T, selector *metav1.LabelSelector) (owners []string) {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	require.NoError(t, err)
	for _, p := range o.pods() {
		if s.Matches(labels.Set(p.meta.Labels)) {
			owners = append(owners, p.kind+"/"+p.owner.GetName())
		}
	}
	return owners
}

// proxy returns the pods of mcmw and mcmw's container.
func (o *objects) proxy(t *testing.T) (podTemplate, corev1.Container) {
	t.Helper()
	for _, p := range o.pods() {
		if p.kind == "Deployment" || p.kind == "DaemonSet" {
			return p, p.spec.Containers[0]
		}
	}
	require.Fail(t, "there is no mcmw")
	return podTemplate{}, corev1.Container{}
}

// environment returns the variables of a container that have a value, by name.
func environment(c corev1.Container) map[string]string {
	values := map[string]string{}
	for _, e := range c.Env {
		values[e.Name] = e.Value
	}
	return values
}
