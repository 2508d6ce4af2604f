//! Ports, variables, and that a container gets what a binary gets.

use std::net::TcpListener;

use super::{CONFIG, Config, Endpoints, UI_CONFIG, UI_VARIABLE, USUAL_PORTS, Way, free_ports};

#[test]
fn ports_that_are_taken_are_replaced() {
    // The port is taken now, by this test or by another program.
    let _held = TcpListener::bind(("127.0.0.1", USUAL_PORTS[2]));
    let ports = free_ports().unwrap();
    assert_ne!(ports[2], USUAL_PORTS[2]);
    let mut distinct = ports.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 4);
}

#[test]
fn the_tests_are_told_by_environment() {
    let endpoints = Endpoints::on_ports([1, 2, 3, 4]);
    assert_eq!(
        endpoints.variables(),
        [
            ("GUESTSCOPE_JAEGER_OTLP_GRPC", "http://127.0.0.1:1"),
            ("GUESTSCOPE_JAEGER_OTLP_HTTP", "http://127.0.0.1:2"),
            ("GUESTSCOPE_JAEGER_QUERY", "http://127.0.0.1:3"),
        ]
    );
}

#[test]
fn the_page_shows_our_attributes_first() {
    assert!(CONFIG.contains(&format!("${{env:{UI_VARIABLE}}}")));
    let page: serde_json::Value = serde_json::from_str(UI_CONFIG).unwrap();
    let first: Vec<_> =
        page["topTagPrefixes"].as_array().unwrap().iter().filter_map(|one| one.as_str()).collect();
    assert_eq!((first[0], first.last()), ("guestscope.breakdown", Some(&"guestscope.")));
}

#[test]
fn a_container_gets_the_same_configuration_as_a_binary() {
    let config = Config { own: "/c.yaml".into(), page: "/c.json".into() };
    let command = Way::Container("docker").command(&config, [1, 2, 3, 4]);
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    let words = words.join(" ");
    assert!(words.contains("/c.yaml:/jaeger.yaml:ro") && words.ends_with("--config /jaeger.yaml"), "{words}");
    assert!(words.contains("GUESTSCOPE_JAEGER_PORT_OTLP_GRPC=1"), "{words}");
    assert!(words.contains("/c.json:/jaeger-ui.json:ro"), "{words}");
    assert!(words.contains("GUESTSCOPE_JAEGER_UI_CONFIG=/jaeger-ui.json"), "{words}");
}
