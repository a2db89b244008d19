import Testing

@testable import freshet

@Suite("Durations and suggestions", .timeLimit(.minutes(5)))
struct DurationTextTests {
    @Test(arguments: [
        ("250ms", Duration.milliseconds(250)), ("10s", .seconds(10)), ("5m", .seconds(300)), ("1h", .seconds(3_600)),
        ("14d", .seconds(14 * 86_400)), ("0s", .zero), ("90m", .seconds(5_400)), ("007s", .seconds(7)),
    ])
    func parses(text: String, duration: Duration) {
        #expect(DurationText.parse(text) == duration)
    }

    @Test(arguments: [
        "", "5", "s", "-5s", "+5s", "1.5s", "5 s", "5S", "5sec", "5m30s", "99999999999999999999s", "9999999999999d",
        "٣s",
    ])
    func refuses(text: String) {
        #expect(DurationText.parse(text) == nil)
    }

    @Test(arguments: [
        (Duration.zero, "0s"), (.milliseconds(250), "250ms"), (.seconds(10), "10s"), (.seconds(90), "90s"),
        (.seconds(3_600), "1h"), (.seconds(172_800), "2d"), (.milliseconds(1_500), "1500ms"),
        (.microseconds(900), "0s"),
    ])
    func writes(duration: Duration, text: String) {
        #expect(DurationText.write(duration) == text)
    }

    @Test(arguments: [
        ("maxbatch", "maxBatch"), ("maxBacth", "maxBatch"), ("famlies", "families"), ("time", nil), ("x", nil),
        ("timeouts", "timeout"), ("", nil),
    ])
    func suggests(name: String, expected: String?) {
        #expect(Suggestion.closest(to: name, among: ["maxBatch", "families", "timeout"]) == expected)
    }
}
