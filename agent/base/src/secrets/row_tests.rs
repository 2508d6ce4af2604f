//! One row for each way to give a secret, and for each harmless word that looks like one. `S3cr3tW0rd` is the
//! secret.

use proptest::prelude::*;
use rstest::rstest;

use super::masked;

/// The masked line, split as a shell does for words without quotes.
fn shown(line: &str) -> String {
    masked(&line.split(' ').collect::<Vec<_>>()).join(" ")
}

#[rstest]
// Names with digits, plurals, and in two words.
#[case("app --password2 S3cr3tW0rd x", "app --password2 *** x")]
#[case("app PASSWORD_2=S3cr3tW0rd --apikey2=S3cr3tW0rd", "app PASSWORD_2=*** --apikey2=***")]
#[case("app --db-passwords=S3cr3tW0rd --API_KEY_1 S3cr3tW0rd", "app --db-passwords=*** --API_KEY_1 ***")]
#[case("app --tokens S3cr3tW0rd tokens=a:S3cr3tW0rd", "app --tokens *** tokens=***")]
#[case("app --pass-phrase S3cr3tW0rd --pass-word=S3cr3tW0rd", "app --pass-phrase *** --pass-word=***")]
#[case("app --pass1 S3cr3tW0rd --keypass S3cr3tW0rd", "app --pass1 *** --keypass ***")]
#[case("keytool -storepass S3cr3tW0rd", "keytool -storepass ***")]
#[case("app --psk S3cr3tW0rd --wpa-psk=12345678", "app --psk *** --wpa-psk=***")]
#[case("app --pat S3cr3tW0rd AZURE_DEVOPS_EXT_PAT=S3cr3tW0rd", "app --pat *** AZURE_DEVOPS_EXT_PAT=***")]
#[case("app --mnemonic S3cr3tW0rd --preshared-key S3cr3tW0rd", "app --mnemonic *** --preshared-key ***")]
#[case("app --hmac-key S3cr3tW0rd HMACKey=S3cr3tW0rd", "app --hmac-key *** HMACKey=***")]
#[case("app --ssh-key S3cr3tW0rd --tls-key=S3cr3tW0rd", "app --ssh-key *** --tls-key=***")]
#[case("app --hmac-key ab/cdEF0123456789abcdef+x", "app --hmac-key ***")]
#[case("pkcs11-tool --pin 1234 --so-pin=S3cr3tW0rd", "pkcs11-tool --pin *** --so-pin=***")]
#[case(
    "app password\u{200b}=S3cr3tW0rd --pass\u{ad}word S3cr3tW0rd",
    "app password\u{200b}=*** --pass\u{ad}word ***"
)]
// Names that stand alone in a command that sets something.
#[case("aws configure set aws_secret_access_key S3cr3tW0rd", "aws configure set aws_secret_access_key ***")]
#[case(
    "npm config set //registry.npmjs.org/:_authToken S3cr3tW0rd",
    "npm config set //registry.npmjs.org/:_authToken ***"
)]
#[case("git config --global github.token S3cr3tW0rd", "git config --global github.token ***")]
#[case("redis-cli config set requirepass S3cr3tW0rd", "redis-cli config set requirepass ***")]
#[case("poetry config set password set S3cr3tW0rd", "poetry config set password set S3cr3tW0rd")]
#[case("app SetPassword(S3cr3tW0rd)", "app SetPassword(***")]
// A user and a password before a host.
#[case("app user:S3cr3tW0rd@host", "app user:***@host")]
#[case("app --proxy user:S3cr3tW0rd@proxy:80", "app --proxy user:***@proxy:80")]
#[case("curl -x user:S3cr3tW0rd@proxy:80 h", "curl -x user:***@proxy:80 h")]
#[case("curl --proxy=u:S3cr3t/W0rd@proxy:80", "curl --proxy=u:***@proxy:80")]
#[case("app //u:S3cr3tW0rd@h --to=//u:S3cr3t/W0rd@h", "app //u:***@h --to=//u:***@h")]
#[case("app jdbc:oracle:thin:u/S3cr3tW0rd@h", "app jdbc:oracle:thin:u/***@h")]
#[case("app jdbc:oracle:thin:u/S3cr3tW0rd@//h:1521/x", "app jdbc:oracle:thin:u/***@//h:1521/x")]
#[case("app u:S3cr3t@W0rd@10.0.0.1 v:12345@db.local", "app u:***@10.0.0.1 v:***@db.local")]
#[case("app http://h/x,u:S3cr3tW0rd@h", "app http://h/x,u:***@h")]
#[case("app u:S3cr3tW0rd@h,http://v:S3cr3tW0rd@h/", "app u:***@h,http://v:***@h/")]
#[case("app mailto:me@x.org,u:S3cr3tW0rd@h", "app mailto:me@x.org,u:***@h")]
#[case("app u:S3cr3tW0rd@[::1]:80 u:S3cr3tW0rd@$HOST", "app u:***@[::1]:80 u:***@$HOST")]
#[case(
    "app u:S3cr3tW0rd@tcp(10.0.0.1:3306)/db u:S3cr3tW0rd@/db",
    "app u:***@tcp(10.0.0.1:3306)/db u:***@/db"
)]
#[case("app --map=/a:/b,u:S3cr3tW0rd@h", "app --map=/a:/b,u:***@h")]
// URLs.
#[case("curl https://h/x?X-Amz-Signature=S3cr3tW0rd", "curl https://h/x?X-Amz-Signature=***")]
#[case(
    "curl https://h/x?sv=1&sig=S3cr3tW0rd --signature=S3cr3tW0rd",
    "curl https://h/x?sv=1&sig=*** --signature=***"
)]
#[case(
    "git clone https://S3cr3tW0rdx0123456789abcdef@dev.azure.com/org/x",
    "git clone https://***@dev.azure.com/org/x"
)]
#[case("curl https://hooks.slack.com/services/T0/B0/S3cr3tW0rd", "curl https://hooks.slack.com/services/***")]
#[case("curl https://api.telegram.org/bot123456:S3cr3tW0rd/send", "curl https://api.telegram.org/bot***")]
#[case("curl https://Discord.com/api/webhooks/1/S3cr3tW0rd", "curl https://Discord.com/api/webhooks/***")]
// Options of programs.
#[case("/opt/sqlplus -s scott/S3cr3tW0rd@db @x.sql", "/opt/sqlplus -s scott/***@db @x.sql")]
#[case("sqlldr userid=scott/S3cr3tW0rd control=a/b.ctl", "sqlldr userid=scott/*** control=a/***")]
#[case("lftp -u user,S3cr3tW0rd ftp.h", "lftp -u user,*** ftp.h")]
#[case("openssl enc -aes256 -k S3cr3tW0rd", "openssl enc -aes256 -k ***")]
#[case("openssl rsa -passin pass:S3cr3tW0rd", "openssl rsa -passin ***")]
#[case("ssh-keygen -N S3cr3tW0rd -PS3cr3tW0rd -f x", "ssh-keygen -N *** -P*** -f x")]
#[case("curl -b session=S3cr3tW0rd --cookie a=S3cr3tW0rd h", "curl -b *** --cookie *** h")]
#[case("curl --cert x.pem:S3cr3tW0rd", "curl --cert x.pem:***")]
#[case("http -a user:S3cr3tW0rd h", "http -a user:*** h")]
#[case("ipmitool -U me -P S3cr3tW0rd", "ipmitool -U me -P ***")]
#[case("snmpget -A S3cr3tW0rd -X S3cr3tW0rd -c S3cr3tW0rd", "snmpget -A *** -X *** -c ***")]
#[case("twine upload -p S3cr3tW0rd", "twine upload -p ***")]
#[case("rar a -hpS3cr3tW0rd x", "rar a -hp*** x")]
#[case("7z a -pS3cr3tW0rd x", "7z a -p*** x")]
#[case("xfreerdp /p:S3cr3tW0rd /u:me", "xfreerdp /p:*** /u:me")]
#[case("smbclient -U u%S3cr3tW0rd --user=u%S3cr3tW0rd //h/x", "smbclient -U u%*** --user=u%*** //h/x")]
#[case("mysqladmin -pS3cr3tW0rd password S3cr3tW0rd", "mysqladmin -p*** password ***")]
fn a_secret_never_stays(#[case] line: &str, #[case] expected: &str) {
    assert_eq!(shown(line), expected);
}

/// A script and JSON have the same names.
#[rstest]
#[case(&["sh", "-c", "aws configure set aws_secret_access_key 'a b'; x"], "sh -c aws configure set aws_secret_access_key '***'; x")]
#[case(&["sh", "-c", "c.setToken('a b')"], "sh -c c.setToken('***')")]
#[case(&["node", "-e", r#"run(["config", "set", "token", "a b"])"#], r#"node -e run(["config", "set", "token", "***"])"#)]
#[case(&["app", r#"{"tokens": "a b", "tokens": 512}"#], r#"app {"tokens": "***", "tokens": 512}"#)]
#[case(&["app", "--mnemonic", "a b c"], "app --mnemonic ***")]
#[case(&["npm", "config", "set", "token", "a b"], "npm config set token ***")]
fn nor_does_one_with_blanks(#[case] words: &[&str], #[case] expected: &str) {
    assert_eq!(masked(words).join(" "), expected);
}

#[rstest]
// No user, no password or no host.
#[case("git clone git@github.com:org/repo git@h:a/b@2x.png")]
#[case("docker run image:tag@sha256:0123456789abcdef r:5000/a/b:1@sha256:01")]
#[case("mail me@example.org mailto:me@example.org From:me@example.org --email=me@x.org")]
#[case("app 10:30@x 12:30:45@host 8080:80@loadbalancer 1000:1000@x")]
#[case("npm install foo@npm:bar@1.0 npm:@scope/x@2 pkg:npm/foo@1.0 com.x:lib:1.0@aar")]
#[case("git clone https://host:80/path@v1 https://me@host/x https://h/@me:x ssh://git@h:22/x@y")]
#[case("app ssh:me@host tcp:me@host:80")]
#[case("rsync host:folder/file@2x.png me@host:x@2 C:/x@y")]
#[case("uses actions/checkout@v4 org/repo:path/x@main github:org/repo@v1")]
#[case("git clone https://deploy-2024@dev.azure.com/org/x")]
// Numbers, paths and plain words.
#[case(
    "vllm --max-tokens 512 --tokens 512 --max-num-batched-tokens=8192 --tokens-per-second 1.5 --tokens auto"
)]
#[case("vllm --suppress_tokens -1 --stop-tokens </s> --special-tokens x --tokenizers x --log-tokens true")]
#[case(
    "app --ssh-key /root/.ssh/id_rsa --ssh-key-file x --key-file x --cert x.pem --tls-key certs/server.key"
)]
#[case("app --host-key ./k --ca-key=ca.pem --cookies cookies.txt --pin 0-3,8 --pin on --pin-memory true")]
#[case("app --partition-key user_id --primary-key=id --public-key x --monkey x --keypad 1 --hotkey f1")]
#[case("app --lowpass 3000 --bypass x --compass=n --passes 3 --passive x --pattern x --path x --patience 3")]
#[case("app --signature-version v4 --password-name x --token-ttl 3 --auth-method x --credential-helper x")]
// Commands that set something else, and names without one.
#[case("git config credential.helper store user.name me")]
#[case("app token get x")]
#[case("app set name value --set a=b getPassword(x) hash_password(x)")]
#[case("sh set -e; app token x")]
#[case("git add tokens.rs x.rs secrets/mod.rs y.rs")]
// Programs with other options, and options of other programs.
#[case("curl -b cookies.txt -k -a x -N h")]
#[case("http-server -a 0.0.0.0:80 -p 8080")]
#[case("ssh -N -P x -k -b h snmpd -A -c x")]
#[case("sqlplus / as sysdba @dir/x.sql ./x/y -s")]
#[case("openssl req -key x.pem -keyout k")]
#[case("lftp -u user ftp.h smbclient -U user //h/x")]
#[case("curl https://slack.com/services/x https://api.telegram.org/ hooks.slack.com/services/")]
#[case("snmpwalk -c /etc/x")]
fn what_is_no_secret_stays(#[case] line: &str) {
    assert_eq!(shown(line), line);
}

proptest! {
    /// Whatever the password consists of.
    #[test]
    fn a_password_before_a_host_never_stays(
        secret in "Q[!-~&&[^'\"`\\\\]]{4,20}Z",
        host in "[a-z]{1,8}\\.(com|local)|[a-z]{1,8}:[1-9][0-9]{1,3}|10\\.0\\.0\\.[0-9]",
        before in "|--proxy=|//|http_proxy=",
    ) {
        // A URL in it is masked on its own.
        prop_assume!(!secret.contains("//"));
        let line = shown(&format!("{before}me:{secret}@{host}"));
        prop_assert!(!line.contains(&secret), "{line}");
        prop_assert!(line.ends_with(&format!("@{host}")), "{line}");
    }
}
