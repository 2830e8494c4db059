//! What controllers share: caches, work queue, events, API client, clock.
