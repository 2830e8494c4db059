use futures::future::join_all;
use http::HeaderName;

use super::*;

/// A cloud that accepts or refuses credentials, and records those that it received.
#[derive(Clone)]
struct Cloud(Arc<Mutex<Inner>>);

struct Inner {
    /// The refusal of every credential, or of the credential of this name.
    refusal: Option<(&'static str, Error)>,
    account: &'static str,
    lifetime: u64,
    is_renewable: bool,
    takes: u64,
    shown: Vec<&'static str>,
}

/// An issuer with a credential.
struct Login {
    cloud: Cloud,
    name: &'static str,
}

/// The number of a token, and the access that it gives.
type Token = (usize, Arc<Access>);

#[async_trait]
impl Issuer for Login {
    type Token = Token;

    async fn issue(&self) -> Result<Issued<Token>> {
        let takes = self.cloud.with(|cloud| {
            cloud.shown.push(self.name);
            cloud.takes
        });
        tokio::time::sleep(Duration::from_secs(takes)).await;
        self.cloud.with(|cloud| match &cloud.refusal {
            Some((of, err)) if [self.name, ""].contains(of) => Err(err.clone()),
            _ => {
                let number = cloud.shown.len();
                let name = HeaderName::from_static("x-token");
                let access =
                    Access::new("http://cloud", name, &number.to_string().into()).map(Arc::new)?;
                let lifetime = Duration::from_secs(cloud.lifetime);
                let scope = format!("account {}", cloud.account);
                Ok(Issued {
                    token: (number, access),
                    scope,
                    lifetime,
                    is_renewable: cloud.is_renewable,
                })
            }
        })
    }
}

impl Cloud {
    /// Tokens live for 20 minutes.
    fn new() -> Self {
        let refusal = None;
        let account = "a";
        let lifetime = 1200;
        let is_renewable = true;
        let takes = 0;
        let shown = Vec::new();
        Self(Arc::new(Mutex::new(Inner {
            refusal,
            account,
            lifetime,
            is_renewable,
            takes,
            shown,
        })))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Inner) -> T) -> T {
        act(&mut self.0.lock())
    }

    fn refuse(&self, name: &'static str, err: Error) {
        self.with(|cloud| cloud.refusal = Some((name, err)));
    }

    fn login(&self, name: &'static str) -> Login {
        Login {
            cloud: self.clone(),
            name,
        }
    }

    fn tokens(&self) -> Arc<Tokens<Login>> {
        Arc::new(Tokens::of(self.login("old")))
    }

    fn shown(&self) -> Vec<&'static str> {
        self.with(|cloud| cloud.shown.clone())
    }
}

async fn pass(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
}

async fn number(tokens: &Tokens<Login>) -> usize {
    tokens.current().await.unwrap().0
}

fn wrong() -> Error {
    Error::unauthorized("wrong password")
}

#[tokio::test(start_paused = true)]
async fn first_callers_wait_for_one_token_request() {
    let cloud = Cloud::new();
    cloud.with(|cloud| cloud.takes = 5);
    let tokens = cloud.tokens();
    assert_eq!(join_all((0..20).map(|_| number(&tokens))).await, [1; 20]);
    // The lifetime counts from the request.
    pass(1194).await;
    let (one, other) = tokio::join!(number(&tokens), number(&tokens));
    assert_eq!((one, other, cloud.shown().len()), (2, 1, 2));
    pass(1).await;
    assert_eq!(number(&tokens).await, 2);
}

#[tokio::test(start_paused = true)]
async fn token_is_renewed_before_it_expires() {
    for (lifetime, renewed) in [(1200, 900), (86_400, 86_100), (100, 75)] {
        let cloud = Cloud::new();
        cloud.with(|cloud| cloud.lifetime = lifetime);
        let tokens = cloud.tokens();
        for (seconds, expected) in [(0, 1), (renewed - 1, 1), (1, 2), (1, 2)] {
            pass(seconds).await;
            assert_eq!(number(&tokens).await, expected, "{lifetime} {seconds}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn token_that_cannot_be_renewed_is_used_until_it_expires() {
    let cloud = Cloud::new();
    cloud.with(|cloud| cloud.is_renewable = false);
    let tokens = cloud.tokens();
    for (seconds, expected) in [(0, 1), (1199, 1), (1, 2)] {
        pass(seconds).await;
        assert_eq!(number(&tokens).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn failed_renewal_is_retried_and_harmless_before_expiry() {
    let cloud = Cloud::new();
    let tokens = cloud.tokens();
    assert_eq!(number(&tokens).await, 1);
    for err in [wrong(), Error::other("down")] {
        cloud.refuse("", err);
        pass(900).await;
        for _ in 0..9 {
            assert_eq!(number(&tokens).await, 1);
            pass(10).await;
        }
        assert_eq!(cloud.shown().len(), 4, "each half minute");
        pass(210).await;
        tokens.current().await.unwrap_err();
        cloud.with(|cloud| (cloud.refusal, cloud.shown) = (None, Vec::new()));
        pass(30).await;
        assert_eq!(number(&tokens).await, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn callers_do_not_wait_long_for_a_renewal_of_a_valid_token() {
    let cloud = Cloud::new();
    let tokens = cloud.tokens();
    number(&tokens).await;
    cloud.with(|cloud| cloud.takes = 60);
    pass(900).await;
    let began = Instant::now();
    assert_eq!((number(&tokens).await, began.elapsed().as_secs()), (1, 10));
    pass(290).await;
    let began = Instant::now();
    assert_eq!(
        (number(&tokens).await, began.elapsed().as_secs()),
        (3, 60),
        "it has ended"
    );
}

#[tokio::test(start_paused = true)]
async fn refused_credential_is_not_sent_again_before_its_pause_ends() {
    for (err, spared) in [
        (wrong(), 30),
        (wrong().context("cannot read the credential"), 30),
        (Error::other("down"), 1),
        (
            Error::retry_in("down", Duration::from_secs(7)).context("login"),
            7,
        ),
        (
            Error::rate_limited("slow down", Duration::from_secs(90)),
            90,
        ),
    ] {
        let cloud = Cloud::new();
        cloud.refuse("", err.clone());
        let tokens = cloud.tokens();
        for _ in 0..5 {
            assert_eq!(
                tokens.current().await.unwrap_err().to_string(),
                err.to_string()
            );
        }
        pass(spared - 1).await;
        tokens.current().await.unwrap_err();
        assert_eq!(cloud.shown().len(), 1);
        cloud.with(|cloud| cloud.refusal = None);
        pass(1).await;
        assert_eq!(number(&tokens).await, 2);
    }
}

#[tokio::test(start_paused = true)]
async fn refused_token_is_replaced_once_for_all_callers() {
    let cloud = Cloud::new();
    let tokens = cloud.tokens();
    let session = tokens.session(|(_, access)| Ok(Arc::clone(access)));
    let refused = session.access().await.unwrap();
    cloud.with(|cloud| cloud.takes = 1);
    let renewed = join_all((0..10).map(|_| session.renewed(&refused))).await;
    let renewed: Vec<_> = renewed
        .into_iter()
        .map(|renewed| renewed.unwrap().unwrap())
        .collect();
    let used = session.access().await.unwrap();
    assert!(
        renewed.iter().all(|renewed| Arc::ptr_eq(renewed, &used)) && !Arc::ptr_eq(&used, &refused)
    );
    assert_eq!(cloud.shown().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn dropped_token_request_is_repeated_by_the_next_caller() {
    let cloud = Cloud::new();
    cloud.with(|cloud| cloud.takes = 5);
    let tokens = cloud.tokens();
    let impatient = tokio::time::timeout(Duration::from_secs(1), tokens.current());
    let (impatient, patient) = tokio::join!(impatient, number(&tokens));
    assert!(impatient.is_err() && patient == 2);
}

#[tokio::test(start_paused = true)]
async fn new_credential_is_tried_before_it_is_used() {
    let cloud = Cloud::new();
    let tokens = cloud.tokens();
    assert_eq!(number(&tokens).await, 1);
    cloud.refuse("new", wrong());
    assert!(
        tokens
            .reload(cloud.login("new"))
            .await
            .unwrap_err()
            .is_unauthorized()
    );
    assert_eq!(number(&tokens).await, 1);
    cloud.with(|cloud| cloud.refusal = None);
    tokens.reload(cloud.login("new")).await.unwrap();
    assert_eq!(number(&tokens).await, 3);
    pass(900).await;
    number(&tokens).await;
    assert_eq!(cloud.shown(), ["old", "new", "new", "new"]);
}

/// Rule P-39: a rejected new credential is used once the old one is rejected.
#[tokio::test(start_paused = true)]
async fn rejected_new_credential_is_used_once_the_old_one_is_rejected() {
    let cloud = Cloud::new();
    let tokens = cloud.tokens();
    let session = tokens.session(|(_, access)| Ok(Arc::clone(access)));
    let refused = session.access().await.unwrap();
    cloud.refuse("new", wrong());
    tokens.reload(cloud.login("new")).await.unwrap_err();
    cloud.refuse("old", wrong());
    assert!(session.renewed(&refused).await.unwrap().is_some());
    assert_eq!(cloud.shown(), ["old", "new", "old", "new"]);
    pass(900).await;
    number(&tokens).await;
    assert_eq!(cloud.shown()[4..], ["new"]);
}

#[tokio::test(start_paused = true)]
async fn answers_to_a_replaced_credential_do_not_count() {
    let cloud = Cloud::new();
    let tokens = cloud.tokens();
    let session = tokens.session(|(_, access)| Ok(Arc::clone(access)));
    let refused = session.access().await.unwrap();
    cloud.with(|cloud| cloud.takes = 2);
    let reload = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        cloud.with(|cloud| cloud.takes = 0);
        tokens.reload(cloud.login("new")).await.unwrap();
        cloud.refuse("old", wrong());
    };
    let (renewed, ()) = tokio::join!(session.renewed(&refused), reload);
    let renewed = renewed.unwrap().unwrap();
    assert!(
        Arc::ptr_eq(&renewed, &session.access().await.unwrap()),
        "the new one's, and no failure"
    );
    assert_eq!(cloud.shown(), ["old", "old", "new"]);
}

#[tokio::test(start_paused = true)]
async fn credential_of_another_account_is_refused() {
    let cloud = Cloud::new();
    let tokens = cloud.tokens();
    number(&tokens).await;
    cloud.with(|cloud| cloud.account = "b");
    let err = tokens.reload(cloud.login("new")).await.unwrap_err();
    let said =
        "the new credential is for account b, and this cluster's machines are in account a; ";
    assert!(
        err.is_invalid() && err.to_string().starts_with(said),
        "{err}"
    );
    assert_eq!(number(&tokens).await, 1);
}

#[tokio::test(start_paused = true)]
async fn token_of_another_account_stops_all_calls_for_a_minute() {
    let cloud = Cloud::new();
    let tokens = cloud.tokens();
    let session = tokens.session(|(_, access)| Ok(Arc::clone(access)));
    for (account, is_refused) in [("b", true), ("a", false)] {
        let refused = session.access().await.unwrap();
        let before = cloud.shown().len();
        cloud.with(|cloud| cloud.account = account);
        if is_refused {
            session.renewed(&refused).await.unwrap_err();
        } else {
            pass(900).await;
        }
        for _ in 0..3 {
            let err = tokens.current().await.unwrap_err();
            let said = format!("is for account {account} now");
            assert!(
                err.is_unauthorized() && err.to_string().contains(&said),
                "{err}"
            );
            // A good credential does not end the pause either.
            tokens.reload(cloud.login("new")).await.unwrap_err();
            session.renewed(&refused).await.unwrap_err();
            pass(19).await;
        }
        assert_eq!(cloud.shown().len() - before, 1, "nothing after it");
        pass(3).await;
        number(&tokens).await;
    }
}
