module latemux.test/nbmp

go 1.26.0

require (
	github.com/nagare-media/models.go v0.0.0-20250108160023-98fa97a2d480
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
)

require (
	github.com/senseyeio/duration v0.0.0-20180430131211-7c2a214ada46 // indirect
	golang.org/x/text v0.14.0 // indirect
)
