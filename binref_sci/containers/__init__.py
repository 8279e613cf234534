"""Components in containers: images built, one container run, both through docker or podman."""
