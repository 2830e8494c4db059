//! Signatures over requests, for APIs that identify a caller by a signature instead of a token.
//!
//! A [`Signer`] is given to [`Builder::signer`](crate::transport::Builder::signer) and is called for each attempt, after the
//! request is complete: a request that is sent again carries a new date and a new signature over the same body.
//!
//! | cloud | scheme | what it adds to the functions of this module |
//! |---|---|---|
//! | AWS | [`SigV4`] | – |
//! | Tencent Cloud | TC3-HMAC-SHA256 | another key chain, the same canonical request |
//! | Alibaba Cloud | ACS3-HMAC-SHA256 | no key chain, other header names |
//! | Baidu AI Cloud | bce-auth-v1 | the headers to sign are named in the signature |
//! | Oracle Cloud | HTTP signatures | RSA instead of HMAC |

mod canonical;
mod clock;
mod sigv4;

pub use canonical::{canonical_headers, canonical_query, hmac_sha256, sha256_hex};
pub use clock::CloudClock;
pub use sigv4::{AwsCredentials, SigV4};

use bytes::Bytes;
use cloud_provider::{Result, async_trait};
use http::{HeaderMap, Request};
use jiff::Timestamp;

use crate::transport::Refusal;

/// Signs the requests of one API.
#[async_trait]
pub trait Signer: Send + Sync + 'static {
    /// Adds the signature to a complete request, as of `now`. It may wait for a credential that is being renewed.
    ///
    /// # Errors
    /// *Unauthorized* if there is no credential to sign with; then the request is not sent.
    async fn sign(&self, request: &mut Request<Bytes>, now: Timestamp) -> Result<()>;

    /// Learns from a refusal of a request that was sent with `request` as its headers, and returns `true` if another signature may
    /// be accepted: the clock was corrected, or there is another credential. The request is then signed and sent once more.
    ///
    /// # Errors
    /// The reason why there is no other credential; it becomes the failure of the call.
    async fn refused(
        &self,
        _request: &HeaderMap,
        _refusal: &Refusal,
        _answer: &HeaderMap,
    ) -> Result<bool> {
        Ok(false)
    }

    /// Removes the signer's secrets from a text that the cloud answered, before the text reaches an error or a log line.
    fn redact(&self, text: String) -> String;
}
