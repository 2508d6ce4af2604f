//! One line in, one line out; and a secret with any of these names is never in what comes out.

use std::cell::Cell;

use proptest::prelude::*;
use rstest::rstest;

use super::{masked, masked_text};

thread_local! {
    /// Characters that were looked at.
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

pub(super) fn step() {
    STEPS.set(STEPS.get() + 1);
}

#[rstest]
#[case::joined(&["serve", "--password=hunter2"], &["serve", "--password=***"])]
#[case::apart(&["serve", "--password", "hunter2", "--port", "80"], &["serve", "--password", "***", "--port", "80"])]
#[case::one_dash(&["serve", "-token", "abc", "x"], &["serve", "-token", "***", "x"])]
#[case::camel(&["serve", "--dbPassword=hunter2"], &["serve", "--dbPassword=***"])]
#[case::api_key(&["serve", "--api-key", "abc", "--api_key=abc"], &["serve", "--api-key", "***", "--api_key=***"])]
#[case::dotted(&["train", "db.password=abc", "lr=0.1"], &["train", "db.password=***", "lr=0.1"])]
#[case::env(
    &["env", "AWS_SECRET_ACCESS_KEY=wJalr", "AWS_REGION=eu-1", "PGPASSWORD=x", "./run"],
    &["env", "AWS_SECRET_ACCESS_KEY=***", "AWS_REGION=eu-1", "PGPASSWORD=***", "./run"]
)]
#[case::aws(
    &["env", "AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE", "AWS_SESSION_TOKEN=q"],
    &["env", "AWS_ACCESS_KEY_ID=***", "AWS_SESSION_TOKEN=***"]
)]
#[case::url(&["run", "postgres://me:hunter2@db/x"], &["run", "postgres://me:***@db/x"])]
#[case::url_in_an_option(&["run", "--db=redis://:pw@h:6379/0"], &["run", "--db=redis://:***@h:6379/0"])]
#[case::url_with_an_at(&["run", "ftp://me:a@b/c@host/x"], &["run", "ftp://me:***@host/x"])]
#[case::url_of_user(&["run", "http://user:pw@h/"], &["run", "http://user:***@h/"])]
#[case::url_without(&["run", "http://host:80/path@v1", "http://h:80"], &["run", "http://host:80/path@v1", "http://h:80"])]
#[case::urls_of_a_list(&["run", "--up=http://a.h/x,http://u:hunter2@h/"], &["run", "--up=http://a.h/x,http://u:***@h/"])]
#[case::urls_by_semicolons(&["run", "amqp://a:1/;amqp://u:hunter5@b"], &["run", "amqp://a:1/;amqp://u:***@b"])]
#[case::two_passwords(&["run", "a://u:p1@h,b://v:p2@i"], &["run", "a://u:***@h,b://v:***@i"])]
#[case::url_in_a_password(&["run", "a://u:p://x@h"], &["run", "a://u:***@h"])]
#[case::query(&["get", "https://h/x?a=1&token=abc&b=2"], &["get", "https://h/x?a=1&token=***"])]
#[case::header(
    &["curl", "-H", "Authorization: Bearer abc.def", "http://h"],
    &["curl", "-H", "Authorization:***", "http://h"]
)]
#[case::header_in_pieces(
    &["get", "Authorization:", "Basic", "YWxhZGRpbg==", "now"],
    &["get", "Authorization:", "***", "***", "now"]
)]
#[case::header_option(
    &["get", "--header=X-Api-Key: abc def"],
    &["get", "--header=X-Api-Key: *** def"]
)]
#[case::bearer(&["get", "say Bearer abc"], &["get", "say Bearer ***"])]
#[case::curl(&["curl", "-u", "me:pw", "--user", "me:pw", "-ume:pw"], &["curl", "-u", "me:***", "--user", "me:***", "-ume:***"])]
#[case::mysql(&["/usr/bin/mysql", "-u", "me", "-phunter2", "-p", "db"], &["/usr/bin/mysql", "-u", "me", "-p***", "-p", "db"])]
#[case::sshpass(&["sshpass", "-p", "pw", "ssh", "h"], &["sshpass", "-p", "***", "ssh", "h"])]
#[case::port(&["serve", "-p", "8000", "-p8000"], &["serve", "-p", "8000", "-p8000"])]
#[case::script(
    &["sh", "-c", "export PASSWORD='a b'; mysql -pabc; x --token abc --n 1"],
    &["sh", "-c", "export PASSWORD='***'; mysql -p*** x --token *** --n 1"]
)]
#[case::json(
    &["serve", r#"{"password": "a b", "n": 3, "token":"x"}"#],
    &["serve", r#"{"password": "***", "n": 3, "token":"***"}"#]
)]
#[case::python(
    &["python3", "-c", "login(password='a b', user=\"me\")"],
    &["python3", "-c", "login(password='***', user=\"me\")"]
)]
#[case::shapes(
    &["run", "hf_abcdefghijklmnopqrst", "x=ghp_0123456789abcdefghij", "AKIAIOSFODNN7EXAMPLE", "sk-learn"],
    &["run", "***", "x=***", "***", "sk-learn"]
)]
#[case::jwt(&["run", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx.abc"], &["run", "***"])]
#[case::key(&["run", "--key", "tls.pem", "--key", "3f9a8b", "--key=7"], &["run", "--key", "tls.pem", "--key", "***", "--key=7"])]
#[case::secret_after_secret(&["run", "--password", "--token", "abc"], &["run", "--password", "***", "***"])]
#[case::models(
    &["vllm", "--max-tokens", "512", "--tokenizer=x", "--eos-token", "</s>", "--max_new_tokens=20"],
    &["vllm", "--max-tokens", "512", "--tokenizer=x", "--eos-token", "</s>", "--max_new_tokens=20"]
)]
#[case::where_it_is(
    &["run", "--password-file", "/run/pw", "--password-stdin", "x", "--user", "1000:1000"],
    &["run", "--password-file", "/run/pw", "--password-stdin", "x", "--user", "1000:1000"]
)]
#[case::harmless(
    &["python3", "serve.py", "--model", "a b", "key words", "12:30:45", "monkey=1", "ü=é"],
    &["python3", "serve.py", "--model", "a b", "key words", "12:30:45", "monkey=1", "ü=é"]
)]
// What may be a password, and is none, is looked at as any other word.
#[case::quoted_after_a_user(&["sh", "-c", "http://user:'x token=abc'"], &["sh", "-c", "http://user:'x token=***'"])]
#[case::quoted_twice(
    &["sh", "-c", "\"--token=abc]http://user:'x --token abc'\""],
    &["sh", "-c", "\"--token=***'x --token ***'\""]
)]
#[case::no_password(&["curl", "-u", "token=abc"], &["curl", "-u", "token=***"])]
#[case::in_a_user(&["curl", "-u", "token=abc:pw"], &["curl", "-u", "token=***"])]
#[case::behind_a_path(&["get", "h?tls-key=/a&token=abc"], &["get", "h?tls-key=/a&token=***"])]
#[case::masked_end_of_a_command(
    &["sh", "-c", "config set token abc; --token abc; password abc"],
    &["sh", "-c", "config set token *** --token *** password ***"]
)]
#[case::masked_program(&["mysql", "--token", "curl", "-pabc"], &["mysql", "--token", "***", "-p***"])]
#[case::empty(&[], &[])]
fn secrets_are_masked_and_the_rest_stays(#[case] words: &[&str], #[case] expected: &[&str]) {
    assert_eq!(masked(words), expected);
}

#[test]
fn a_text_is_masked_as_well() {
    assert_eq!(masked_text("cannot reach https://me:pw@host/x"), "cannot reach https://me:***@host/x");
}

/// A program chooses its arguments, and root's agent reads them.
#[rstest]
#[case::letters("a")]
#[case::upper_and_lower("aA")]
#[case::dashes("-")]
#[case::equals_signs("=")]
#[case::colons(":")]
#[case::assignments("a=")]
#[case::secrets("token=")]
#[case::schemes("x://")]
#[case::begins_of_tokens("-hf_")]
#[case::tokens("ghp_0123456789abcdef ")]
#[case::quotes("'a\"")]
#[case::users("a:b@c")]
#[case::no_hosts("a:/@1")]
#[case::signs_of_hosts("@")]
#[case::users_and_schemes("a:b@1x://")]
#[case::calls("setToken((")]
#[case::jdbc("jdbc:oracle:thin:a/")]
#[case::webhooks("hooks.slack.com/services")]
fn twice_the_text_takes_twice_the_steps(#[case] piece: &str) {
    let steps = |bytes: usize| {
        STEPS.set(0);
        masked(&[piece.repeat(bytes / piece.len())]);
        STEPS.get()
    };
    let (once, twice) = (steps(4 << 10), steps(8 << 10));
    assert!(twice <= 2 * once + 100, "{once} and {twice}");
}

fn named() -> impl Strategy<Value = String> {
    let names = [
        "password",
        "DB_PASSWORD",
        "dbPassword",
        "token",
        "HF_TOKEN",
        "api-key",
        "client_secret",
        "AWS_SECRET_ACCESS_KEY",
        "passphrase",
        "Authorization",
        "private-key",
        "X-Auth-Token",
        "pwd",
        "password2",
        "DB_PASSWORDS",
        "apikey2",
        "pass-phrase",
        "wpa_psk",
        "GITHUB_PAT",
        "X-Amz-Signature",
        "storepass",
    ];
    prop::sample::select(names.to_vec()).prop_map(str::to_owned)
}

/// A word of what masking knows, in any order.
fn pieces() -> impl Strategy<Value = String> {
    let pieces = [
        "--token",
        "token",
        "--tokens",
        "pin",
        "--key",
        "tls-key",
        "--user",
        "user",
        "password",
        "setToken(",
        "bearer",
        "Authorization",
        "set",
        "config",
        "mysql",
        "curl",
        "sqlplus",
        "-p",
        "-u",
        "http://",
        "x://",
        "jdbc:oracle:thin:",
        "host",
        "h.com",
        "hf_0123456789abcdefgh",
        "hooks.slack.com/services/",
        "***",
        "true",
        "5",
        "/a",
        "abc",
        "=",
        ":",
        "@",
        "/",
        ",",
        ";",
        "&",
        "(",
        ")",
        "]",
        " ",
        "'",
        "\"",
        "-",
        "é",
    ];
    let few = prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..9);
    few.prop_map(|pieces| pieces.concat())
}

proptest! {
    /// However the secret is written and whatever stands around it.
    #[test]
    fn a_secret_with_a_name_never_stays(
        name in named(),
        secret in "Q[!-~&&[^'\"`\\\\]]{4,20}Z",
        form in 0_usize..10,
        before in prop::collection::vec("[ -~]{0,12}", 0..3),
        after in prop::collection::vec("\\PC{0,12}", 0..3),
    ) {
        let words = match form {
            0 => vec![format!("--{name}={secret}")],
            1 => vec![format!("--{name}"), secret.clone()],
            2 => vec![format!("{name}={secret}")],
            3 => vec!["sh".to_owned(), "-c".to_owned(), format!("x; export {name}={secret} y")],
            4 => vec!["-H".to_owned(), format!("{name}: {secret}")],
            5 => vec![format!("{{\"{name}\": \"{secret}\"}}")],
            6 => vec![format!("f({name}='{secret} {secret}')")],
            7 => vec![format!("{name}:"), secret.clone()],
            8 => vec!["sh".to_owned(), "-c".to_owned(), format!("run --{name} {secret}")],
            _ => vec![format!("x://me:{secret}@host")],
        };
        // A port, not a password.
        prop_assume!(form != 9 || !secret.contains("://"));
        let line: Vec<String> = before.into_iter().chain(words).chain(after).collect();
        let shown = masked(&line).join(" ");
        prop_assert!(!shown.contains(&secret), "{line:?} became {shown}");
    }

    /// Who masks a masked line again, as a reader of a folder may, finds nothing.
    #[test]
    fn a_masked_line_stays(words in prop::collection::vec(pieces(), 0..6)) {
        let once = masked(&words);
        prop_assert_eq!(&masked(&once), &once, "{:?}", words);
        let text = masked_text(&words.join(" "));
        prop_assert_eq!(masked_text(&text), text, "{:?}", words);
    }

    #[test]
    fn any_words_keep_their_number(words in prop::collection::vec("\\PC{0,30}", 0..8)) {
        prop_assert_eq!(masked(&words).len(), words.len());
    }
}
