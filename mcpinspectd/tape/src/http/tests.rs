use super::*;

/// Inputs, as lines.
#[derive(Default)]
struct Log(Vec<String>);

impl InputSink for Log {
    fn input(&mut self, input: Input<'_>) {
        self.0.push(match input {
            Input::SessionStarted(start) => format!("start {}", start.server.server_id),
            Input::Message {
                direction,
                position,
                bytes,
                ..
            } => {
                let text = String::from_utf8_lossy(&bytes);
                format!("{} {position} {text}", direction.as_str())
            }
            Input::Gap { bytes_lost, .. } => format!("gap {bytes_lost}"),
            Input::SessionEnded { .. } => "end".to_owned(),
            other => format!("{other:?}"),
        });
    }
}

fn request(session: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /mcp?key=se-cret HTTP/1.1\r\nHost: mcp.example:8080\r\nContent-Type: application/json\r\nMCP-Protocol-Version: 2025-06-18\r\n{session}Content-Length: {length}\r\n\r\n{body}"
    )
}

fn response(session: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{session}Content-Length: {length}\r\n\r\n{body}"
    )
}

fn flow(client: &[String], server: &[String]) -> Flow {
    Flow {
        client: client.concat().into_bytes(),
        server: server.concat().into_bytes(),
    }
}

fn played(flows: &[Flow], session: Option<&str>) -> Vec<String> {
    let mut source = HttpSource::new(flows, session, Timestamp(7)).unwrap();
    let mut log = Log::default();
    while source.poll(&mut log).unwrap() == Progress::Open {}
    source.finish(&mut log).unwrap();
    log.0
}

const ASK: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#;

#[test]
fn connections_make_one_session_in_the_order_of_requests() {
    let ask = request("", ASK);
    let answer = response("", ANSWER);
    let flows = [
        flow(
            &[ask.clone(), ask.clone()],
            &[answer.clone(), answer.clone()],
        ),
        flow(&[ask], &[answer]),
    ];
    let up = |at: u64| format!("client_to_server {at} {ASK}");
    let down = |at: u64| format!("server_to_client {at} {ANSWER}");
    let expected = [
        "start mcp.example".to_owned(),
        up(0),
        down(0),
        up(46),
        down(46),
        up(92),
        down(92),
        "end".to_owned(),
    ];
    assert_eq!(played(&flows, None), expected);
    let source = HttpSource::new(&flows, None, Timestamp(7)).unwrap();
    let url = "http://mcp.example:8080/mcp".to_owned();
    assert_eq!(source.session().endpoint, ServerEndpoint::Http { url });
    assert_eq!(source.session().server.name_source, "url");
}

#[test]
fn one_of_several_sessions_is_chosen() {
    let of = |session: &str| {
        let field = format!("Mcp-Session-Id: {session}\r\n");
        flow(&[request(&field, ASK)], &[response(&field, ANSWER)])
    };
    let flows = [of("a"), of("b"), of("a")];
    let several = HttpSource::new(&flows, None, Timestamp(7)).unwrap_err();
    assert_eq!(several, NoSession::Several(vec!["a".into(), "b".into()]));
    assert_eq!(played(&flows, Some("a")).len(), 6);
    assert_eq!(played(&flows, Some("b")).len(), 4);
    let missing = HttpSource::new(&flows, Some("c"), Timestamp(7)).unwrap_err();
    assert_eq!(missing, NoSession::Missing("c".into()));
    let nothing = HttpSource::new(&[Flow::default()], None, Timestamp(7)).unwrap_err();
    assert_eq!(nothing, NoSession::NoMcp);
}

#[test]
fn what_is_cut_off_is_a_gap_and_a_remark() {
    let mut flow = flow(&[request("", ASK)], &[response("", ANSWER)]);
    flow.server.truncate(flow.server.len() - 10);
    let source = HttpSource::new(&[flow.clone()], None, Timestamp(7)).unwrap();
    let [remark] = source.remarks() else {
        panic!("{:?}", source.remarks());
    };
    assert_eq!(remark.connection, 1);
    assert!(remark.text.ends_with("unfinished"), "{remark:?}");
    assert_eq!(played(&[flow], None)[2], "gap 36");
}

#[test]
fn an_answer_comes_after_its_request() {
    // The older transport: requests go over the second connection, and their answers come over the first.
    let get = "GET /sse HTTP/1.1\r\nHost: h\r\nAccept: text/event-stream\r\n\r\n".to_owned();
    let stream = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: endpoint\ndata: /mcp?key=se-cret\n\ndata: {ANSWER}\n\n"
    );
    let accepted = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_owned();
    let flows = [
        flow(&[get], &[stream]),
        flow(&[request("", ASK)], &[accepted]),
    ];
    let lines = played(&flows, None);
    assert!(
        lines[1].ends_with(ASK) && lines[2].ends_with(ANSWER),
        "{lines:?}"
    );
    let source = HttpSource::new(&flows, None, Timestamp(7)).unwrap();
    let url = "http://h/sse".to_owned();
    assert_eq!(source.session().endpoint, ServerEndpoint::Sse { url });
}
