use std::time::{Duration, SystemTime};

use http::StatusCode;
use prost::Message as _;
use tonic::{Code, Status};

use super::{Failure, Retry, RetryInfo, RpcAny, RpcDuration, RpcStatus};

fn details(delay: RpcDuration) -> bytes::Bytes {
    let info = RetryInfo { retry_delay: Some(delay) };
    let any =
        RpcAny { type_url: "type.googleapis.com/google.rpc.RetryInfo".into(), value: info.encode_to_vec() };
    RpcStatus { code: 8, message: String::new(), details: vec![any] }.encode_to_vec().into()
}

#[test]
fn only_the_codes_of_the_specification_are_repeated() {
    for code in (0..=16).map(Code::from_i32).filter(|code| *code != Code::Ok) {
        let expected = match code {
            Code::Cancelled
            | Code::DeadlineExceeded
            | Code::Aborted
            | Code::OutOfRange
            | Code::Unavailable
            | Code::DataLoss => Retry::Yes,
            _ => Retry::Never,
        };
        assert_eq!(Failure::grpc(Status::new(code, "x")).retry, expected, "{code:?}");
    }
    let now = SystemTime::UNIX_EPOCH;
    for status in [301, 400, 401, 403, 404, 408, 413, 429, 500, 501, 502, 503, 504] {
        let expected = if [429, 502, 503, 504].contains(&status) { Retry::Yes } else { Retry::Never };
        let status = StatusCode::from_u16(status).unwrap();
        assert_eq!(Failure::http(status, None, b"", now).retry, expected, "{status}");
    }
}

#[test]
fn the_receiver_says_when() {
    let delay = RpcDuration { seconds: 3, nanos: 500_000_000 };
    for (code, expected) in [
        (Code::ResourceExhausted, Retry::After(Duration::from_millis(3500))),
        (Code::Unavailable, Retry::After(Duration::from_millis(3500))),
        (Code::InvalidArgument, Retry::Never),
    ] {
        assert_eq!(Failure::grpc(Status::with_details(code, "x", details(delay))).retry, expected);
    }
    let nonsense = RpcDuration { seconds: -1, nanos: 0 };
    let status = Status::with_details(Code::Unavailable, "x", details(nonsense));
    assert_eq!(Failure::grpc(status).retry, Retry::Yes);

    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    let retry = |text| Failure::http(StatusCode::SERVICE_UNAVAILABLE, Some(text), b"", now).retry;
    assert_eq!(retry("7"), Retry::After(Duration::from_secs(7)));
    assert_eq!(retry("Sun, 06 Nov 1994 08:49:47 GMT"), Retry::After(Duration::from_secs(10)));
    assert_eq!(retry("Sun, 06 Nov 1994 08:49:00 GMT"), Retry::After(Duration::ZERO));
    assert_eq!(retry("soon"), Retry::Yes);
}

#[test]
fn the_error_says_what_the_receiver_said_in_one_short_line() {
    let now = SystemTime::UNIX_EPOCH;
    let encoded = RpcStatus { code: 3, message: "bad\npoint".into(), details: vec![] }.encode_to_vec();
    let failure = Failure::http(StatusCode::BAD_REQUEST, None, &encoded, now);
    assert_eq!(failure.error.to_string(), "the receiver answered 400 Bad Request: bad point");
    let failure = Failure::http(StatusCode::NOT_FOUND, None, b"404 page not found\n", now);
    assert_eq!(failure.error.to_string(), "the receiver answered 404 Not Found: 404 page not found");
    let failure = Failure::grpc(Status::invalid_argument("x".repeat(1000)));
    assert!(failure.error.to_string().len() < 300);
}
