// Pins mp4ff-decrypt, with which tests decrypt Common Encryption: `make tools` builds it.
module latemux/decrypt

go 1.24

tool github.com/Eyevinn/mp4ff/cmd/mp4ff-decrypt

require github.com/Eyevinn/mp4ff v0.54.0
