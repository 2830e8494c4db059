//! Hetzner's provider and its fake, with a validating proxy between them that knows the published OpenAPI document: no
//! request and no response may violate it, except for the differences in [`disagreements`].
//!
//! * `CCM_TEST_HETZNER_PROXY`: the proxy's URL, `http://127.0.0.1:4021`. Without it every scenario is ignored, with that reason.
//! * `CCM_TEST_HETZNER_UPSTREAM`: the address that the proxy forwards to, `127.0.0.1:4020`; the fake listens there.
//!
//! Robot and the metadata service are in no document. The arguments are those of `cargo test`.

mod disagreements;
mod fake_answers;
mod provider;
mod scene;

use std::process::ExitCode;

use anyhow::Result;
use ccm_tests::real;
use libtest_mimic::{Arguments, Trial};

use crate::scene::Scene;

macro_rules! scenarios {
    ($($module:ident::$name:ident,)*) => {
        vec![$(trial(stringify!($name), async |scene| $module::$name(&scene).await)),*]
    };
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // The proxy forwards to one address.
    arguments.test_threads = Some(1);
    let trials = scenarios![
        fake_answers::the_proxy_refuses_what_the_document_does_not_allow,
        fake_answers::the_fake_speaks_as_the_document_says,
        provider::every_request_of_the_provider_and_its_answer_is_valid,
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(
    name: &'static str,
    scenario: impl AsyncFnOnce(Scene) -> Result<()> + Send + 'static,
) -> Trial {
    let places = std::env::var("CCM_TEST_HETZNER_PROXY")
        .ok()
        .zip(std::env::var("CCM_TEST_HETZNER_UPSTREAM").ok());
    let lacks = "there is no proxy: set CCM_TEST_HETZNER_PROXY and CCM_TEST_HETZNER_UPSTREAM";
    real::trial(name, places.is_none().then_some(lacks), move || {
        let (proxy, upstream) = places.unwrap_or_default();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async { scenario(Scene::start(&proxy, &upstream).await?).await })
    })
}
