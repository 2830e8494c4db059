//! DigitalOcean: the provider `digitalocean`, which is being written.
