// Package deployment tests what pglock is deployed with: the units of systemd, the image and the manifests of Kubernetes.
package deployment
