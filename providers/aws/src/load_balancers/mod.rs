//! Load balancers of Services: classic and network load balancers.
