// Package nbmp checks the documents that `latemux lab plan --documents` writes with types and
// schemas of others.
package nbmp

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	nbmp "github.com/nagare-media/models.go/iso/nbmp/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const module = "github.com/nagare-media/models.go"

// Fields that the schemas require although the text of ISO/IEC 23090-8 forbids them, or no engine
// needs them. The test allows their absence, and fails for any other violation.
var contradictions = []*regexp.Regexp{
	// Clause 9.4 allows ports in task documents only, and a task at an end of a chain has none on
	// one side.
	regexp.MustCompile(`^at '.*/general/(input|output)-ports': minItems: got 0, want 1$`),
	// The state is what an engine reports of a running resource.
	regexp.MustCompile(`^at '.*/general': missing property 'state'$`),
	// Keywords and images select functions in a repository.
	regexp.MustCompile(`^at '.*/keywords': minItems: got 0, want 1$`),
	regexp.MustCompile(`^at '/processing/image': minItems: got 0, want 1$`),
	// The schema of tasks misspells "requirement", and demands a request that only calls have.
	regexp.MustCompile(`^at '': missing properties 'request', 'requirements'$`),
}

func isContradiction(violation string) bool {
	return slices.ContainsFunc(contradictions, func(known *regexp.Regexp) bool { return known.MatchString(violation) })
}

func documents(t *testing.T, extension string) []string {
	folder := os.Getenv("LATEMUX_LAB_DOCUMENTS")
	if folder == "" {
		t.Skip("LATEMUX_LAB_DOCUMENTS names no folder with documents")
	}
	paths, err := filepath.Glob(filepath.Join(folder, "*"+extension))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no documents (%v)", err)
	}
	return paths
}

func decode[T any](t *testing.T, path string) {
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	var document T
	if err := decoder.Decode(&document); err != nil {
		t.Errorf("%s: %v", path, err)
	}
}

func TestDocumentsDecodeStrictly(t *testing.T) {
	for _, path := range documents(t, ".wdd") {
		decode[nbmp.Workflow](t, path)
	}
	for _, path := range documents(t, ".tdd") {
		decode[nbmp.Task](t, path)
	}
}

// schema compiles a schema of the standard. Some of its references lack the step "properties", or
// name a definition that has another name; they are corrected.
func schema(t *testing.T, name string) *jsonschema.Schema {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(strings.TrimSpace(string(out)), "iso/nbmp/v2/schemas")
	compiler := jsonschema.NewCompiler()
	for _, file := range []string{name, "nbmp-schema-definitions.json"} {
		content, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Fatal(err)
		}
		content = regexp.MustCompile(`"#/(\w+)/(\w+)"`).ReplaceAll(content, []byte(`"#/$1/properties/$2"`))
		content = bytes.ReplaceAll(content, []byte(`"#/requirements"`), []byte(`"#/requirement"`))
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiler.AddResource("file:///"+file, document); err != nil {
			t.Fatal(err)
		}
	}
	compiled, err := compiler.Compile("file:///" + name)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// leaves returns the violations that have no further cause.
func leaves(violation *jsonschema.ValidationError) []string {
	if len(violation.Causes) == 0 {
		return []string{violation.Error()}
	}
	var all []string
	for _, cause := range violation.Causes {
		all = append(all, leaves(cause)...)
	}
	return all
}

func TestDocumentsValidateAgainstTheSchemas(t *testing.T) {
	for extension, name := range map[string]string{".wdd": "nbmp-workflow-schema.json", ".tdd": "nbmp-task-schema.json"} {
		compiled := schema(t, name)
		for _, path := range documents(t, extension) {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			document, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
			if err != nil {
				t.Fatal(err)
			}
			violation, _ := compiled.Validate(document).(*jsonschema.ValidationError)
			if violation == nil {
				continue
			}
			for _, leaf := range leaves(violation) {
				if !isContradiction(leaf) {
					t.Errorf("%s: %s", path, leaf)
				}
			}
		}
	}
}
