use super::*;

#[test]
fn provider_ids_of_the_go_program_and_of_tke_are_read_and_others_are_errors() {
    for id in [
        "tencentcloud:///ap-guangzhou-3/ins-abc12345",
        "qcloud:///100003/ins-abc12345",
        "ins-abc12345",
    ] {
        assert_eq!(machine_id(id).unwrap(), "ins-abc12345", "{id}");
    }
    for id in [
        "tencentcloud:///ins-abc12345",
        "tencentcloud:///a/b/ins-abc12345",
        "tencentcloud://x/ap-guangzhou-3/ins-abc12345",
        "tencentcloud:///ap-guangzhou-3/",
        "tencentcloud:///ap-guangzhou-3/ins-../x",
        "aws:///a/ins-abc12345",
        "",
    ] {
        assert!(machine_id(id).unwrap_err().is_invalid(), "{id}");
    }
}
