module cluster/cert-manager

go 1.26.0

// data deploy/crds
require github.com/cert-manager/cert-manager v1.21.2
