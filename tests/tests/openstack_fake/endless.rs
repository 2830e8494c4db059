//! Answers and lists without an end.

use ccm_tests::openstack_cloud::OpenStackCloud;
use ccm_tests::proofs::{endless_answers, endless_lists};

#[tokio::test(start_paused = true)]
async fn an_answer_without_an_end_is_read_up_to_its_limit_and_proves_nothing() {
    endless_answers(&OpenStackCloud::default()).await;
}

#[tokio::test(start_paused = true)]
async fn a_list_of_empty_pages_ends_and_proves_no_absence() {
    endless_lists(&OpenStackCloud::default()).await;
}
