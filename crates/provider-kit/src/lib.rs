//! What cloud providers share: HTTP transport, paging, inventory.
