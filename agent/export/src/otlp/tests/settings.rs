//! Which setting wins, what a URL means, and that nothing secret is shown.

use guestscope_base::Hint as _;
use insta::assert_snapshot;
use rstest::rstest;

use super::environment;
use crate::otlp::{
    ExportError, Protocol,
    settings::{Settings, is_configured},
};

fn resolve(endpoint: Option<&str>, variables: &[(&str, &str)]) -> Result<Settings, ExportError> {
    Settings::resolve(endpoint, None, &environment(variables))
}

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";

#[rstest]
#[case::grpc_port(Some("http://h:4317"), &[(PROTOCOL, "http/protobuf")], "grpc http://h:4317/")]
#[case::http_port(Some("http://h:4318"), &[(PROTOCOL, "grpc")], "http http://h:4318/v1/traces")]
#[case::other_port(Some("http://h:9999"), &[], "grpc http://h:9999/")]
#[case::other_port_by_variable(Some("http://h:9999"), &[(PROTOCOL, "http/protobuf")], "http http://h:9999/v1/traces")]
#[case::path_of_traces(Some("https://h/v1/traces"), &[], "http https://h/v1/traces")]
#[case::base_path(Some("http://h:4318/otlp/"), &[], "http http://h:4318/otlp/v1/traces")]
#[case::query(Some("http://h:4318?k=v"), &[], "http http://h:4318/v1/traces?k=v")]
#[case::no_scheme(Some("localhost:4317"), &[], "grpc http://localhost:4317/")]
#[case::no_scheme_no_port(Some("h"), &[], "grpc http://h:4317/")]
#[case::no_scheme_secure(Some("h:4317"), &[("OTEL_EXPORTER_OTLP_INSECURE", "false")], "grpc https://h:4317/")]
#[case::scheme_beats_insecure(Some("http://h"), &[("OTEL_EXPORTER_OTLP_INSECURE", "false")], "grpc http://h/")]
#[case::ipv6(Some("[::1]:4318"), &[], "http http://[::1]:4318/v1/traces")]
#[case::upper_case(Some("HTTPS://h:4317"), &[], "grpc https://h:4317/")]
#[case::command_line_beats_variables(Some("http://a:4317"), &[(TRACES, "http://b:4317")], "grpc http://a:4317/")]
#[case::traces_beats_all(None, &[(ENDPOINT, "http://a:4317"), (TRACES, "http://b:4317")], "grpc http://b:4317/")]
#[case::empty_is_unset(None, &[(ENDPOINT, "http://a:4317"), (TRACES, " ")], "grpc http://a:4317/")]
#[case::variable_gets_path(None, &[(ENDPOINT, "http://a:4318")], "http http://a:4318/v1/traces")]
#[case::traces_is_verbatim(None, &[(TRACES, "http://a:4318/x")], "http http://a:4318/x")]
#[case::protocol_beats_port_of_variable(None, &[(ENDPOINT, "http://a:4317"), (PROTOCOL, "http/protobuf")],
    "http http://a:4317/v1/traces")]
#[case::json_is_taken_as_protobuf(None, &[(ENDPOINT, "http://a:1"), (PROTOCOL, "http/json")],
    "http http://a:1/v1/traces")]
#[case::protocol_of_traces_beats_all(None, &[(ENDPOINT, "http://a:1"), (PROTOCOL, "grpc"),
    ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf")], "http http://a:1/v1/traces")]
fn endpoints(#[case] given: Option<&str>, #[case] variables: &[(&str, &str)], #[case] expected: &str) {
    let settings = resolve(given, variables).unwrap_or_else(|error| panic!("{error}"));
    let protocol = match settings.protocol {
        Protocol::Grpc => "grpc",
        Protocol::HttpProtobuf => "http",
    };
    assert_eq!(format!("{protocol} {}", settings.url), expected);
}

#[rstest]
#[case::scheme("ftp://user:hunter2@h:21/token", "the scheme is neither http nor https): ftp://h:21")]
#[case::no_host("http://", "no valid host): http://")]
#[case::only_user("http://user:hunter2@", "no valid host): http://")]
#[case::port("http://user:hunter2@h:99999", "no valid port): http://h:99999")]
#[case::no_port("http://h:", "no valid port): http://h:")]
#[case::space("http://a b:4317", "no valid host): http://a b:4317")]
#[case::slash_in_password("http://user:hun/hunter2@h:4317", "an @ in the path): http://h:4317")]
#[case::path("http://h:4318/a b?key=hunter2", "no valid path): http://h:4318")]
fn bad_urls(#[case] given: &str, #[case] expected: &str) {
    let error = resolve(Some(given), &[]).err().expect("it is not valid");
    let text = error.to_string();
    assert!(text.ends_with(expected), "{text}");
    assert!(!format!("{text} {error:?}").contains("hunter2"));
    assert!(error.hint().is_some());
}

#[test]
fn other_mistakes_are_named() {
    let show = |error: Result<Settings, ExportError>| error.err().expect("a mistake").to_string();
    assert_snapshot!(show(resolve(None, &[])), @"no OTLP endpoint is given");
    assert_snapshot!(show(resolve(Some("h:1"), &[(PROTOCOL, "thrift")])), @"unknown OTLP protocol: thrift");
    let headers = [("OTEL_EXPORTER_OTLP_HEADERS", "a=1,hunter2")];
    assert_snapshot!(show(resolve(Some("h:1"), &headers)), @"not an HTTP header in OTEL_EXPORTER_OTLP_HEADERS: entry 2");
}

#[test]
fn headers_timeout_and_compression_come_from_the_environment() {
    let variables = [
        ("OTEL_EXPORTER_OTLP_HEADERS", "ignored=1"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "Authorization=Bearer%20abc%2C, x-tenant = 7 ,"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
    ];
    let settings = resolve(Some("h:4317"), &variables).unwrap_or_else(|error| panic!("{error}"));
    let headers: Vec<_> = settings.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    assert_eq!(headers, ["authorization: Bearer abc,", "x-tenant: 7"]);
    assert_eq!(settings.timeout.as_millis(), 2_500);
    assert!(settings.gzip);
}

#[rstest]
#[case::unset(&[])]
#[case::none(&[("OTEL_EXPORTER_OTLP_COMPRESSION", "none"), ("OTEL_EXPORTER_OTLP_TIMEOUT", "0")])]
#[case::strange(&[("OTEL_EXPORTER_OTLP_COMPRESSION", "lzma"), ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")])]
fn defaults(#[case] variables: &[(&str, &str)]) {
    let settings = resolve(Some("h:4317"), variables).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((settings.timeout.as_secs(), settings.gzip), (10, false));
    assert!(settings.headers.is_empty());
}

#[test]
fn a_user_in_the_url_becomes_a_header_and_is_not_shown() {
    let settings = resolve(Some("https://user:p%40ss@h:4318"), &[]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(settings.headers["authorization"], "Basic dXNlcjpwQHNz");
    assert_eq!(
        (settings.origin.as_str(), settings.url.to_string().as_str()),
        ("https://h:4318", "https://h:4318/v1/traces")
    );
    let own = [("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer x")];
    let settings = resolve(Some("https://user:pass@h:4318"), &own).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(settings.headers["authorization"], "Bearer x", "a header that is given comes first");
}

#[test]
fn words_from_outside_are_scrubbed() {
    let variables = [("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20hunter2,x-key=s3cret")];
    let settings = resolve(Some("h:4317"), &variables).unwrap_or_else(|error| panic!("{error}"));
    assert_snapshot!(settings.scrub("no \u{1b}[31mBearer hunter2, hunter2 or\ns3cret"), @"no  [31m***, *** or ***");
    assert_eq!(settings.scrub(&"x".repeat(1_000)).len(), 300);
}

/// Any form in which a collector may repeat a secret: `%40` is an at sign, the user is bob, the password
/// hunter@22.
#[rstest]
#[case::pair("user bob:hunter@22 may not")]
#[case::password("hunter@22 is wrong")]
#[case::capitals("HUNTER@22 is wrong")]
#[case::of_a_url("http://bob:hunter%4022@h")]
#[case::header("authorization: Basic Ym9iOmh1bnRlckAyMg== is wrong")]
#[case::base64_of_the_password("aHVudGVyQDIy is wrong")]
#[case::hexadecimal("68756e746572403232")]
fn no_form_of_a_password_comes_back(#[case] said: &str) {
    let settings =
        resolve(Some("http://bob:hunter%4022@h:4318"), &[]).unwrap_or_else(|error| panic!("{error}"));
    let scrubbed = settings.scrub(said).to_lowercase();
    for secret in ["hunter", "ym9i", "ahvu", "6875", "bob"] {
        assert!(!scrubbed.contains(secret), "{scrubbed}");
    }
    assert!(scrubbed.contains("***"), "{scrubbed}");
}

#[rstest]
#[case::short(
    "http://a:b@h:4318",
    "a:b and b are no words of a bad banana",
    "*** and *** are no words of *** bad banana"
)]
#[case::none("http://h:4318", "a:b", "a:b")]
fn short_secrets_are_whole_words(#[case] url: &str, #[case] said: &str, #[case] expected: &str) {
    let settings = resolve(Some(url), &[]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(settings.scrub(said), expected);
}

#[test]
fn it_is_known_whether_there_is_an_endpoint() {
    assert!(!is_configured(None, &environment(&[])));
    assert!(is_configured(Some("h"), &environment(&[])));
    assert!(is_configured(None, &environment(&[(TRACES, "h")])));
}

/// What stands for no byte stays; what stands for no text is no header.
#[rstest]
#[case("a%20b", Some("a b"))]
#[case("100%", Some("100%"))]
#[case("%zz%4", Some("%zz%4"))]
#[case("%c3%a4", Some("ä"))]
#[case("%ff", None)]
fn escapes_of_a_header(#[case] value: &str, #[case] expected: Option<&str>) {
    let headers = format!("x={value}");
    let settings = resolve(Some("h:1"), &[("OTEL_EXPORTER_OTLP_HEADERS", &headers)]);
    assert_eq!(settings.ok().map(|settings| settings.headers["x"].clone()).as_deref(), expected);
}

/// A user and password whose escapes are no text are none.
#[rstest]
#[case("me:100%", Some("Basic bWU6MTAwJQ=="))]
#[case("me:%zz", Some("Basic bWU6JXp6"))]
#[case("me:%ff", None)]
fn escapes_of_a_user(#[case] user: &str, #[case] expected: Option<&str>) {
    let settings =
        resolve(Some(&format!("http://{user}@h:1")), &[]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(settings.headers.get("authorization").map(String::as_str), expected);
}
