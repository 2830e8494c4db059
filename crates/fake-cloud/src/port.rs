//! Fakes that listen on a port of this machine, for programs.

use std::io;
use std::net::SocketAddr;

use axum::Router;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

/// A port that is open but not served yet, because a fake may have to know its URL.
pub struct Port {
    listener: TcpListener,
    address: SocketAddr,
}

impl Port {
    /// Opens a port; `127.0.0.1:0` stands for any free port.
    ///
    /// # Errors
    /// An error if the port cannot be opened.
    pub async fn open(address: &str) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self {
            address: listener.local_addr()?,
            listener,
        })
    }

    /// Returns the URL, such as `http://127.0.0.1:43617`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Serves this router from now on, in the runtime of the caller.
    #[must_use]
    pub fn serve(self, router: Router) -> Served {
        let url = self.url();
        let server = tokio::spawn(async move { axum::serve(self.listener, router).await });
        Served {
            url,
            server: server.abort_handle(),
        }
    }
}

/// A router that is served until this value is dropped.
pub struct Served {
    url: String,
    server: AbortHandle,
}

impl Served {
    /// Returns the URL, such as `http://127.0.0.1:43617`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.server.abort();
    }
}
