import Testing

@testable import WidgetModel

@Suite(.tags(.provider), .timeLimit(.minutes(5)))
struct ProviderRequestTests {
    private func identity(_ sharing: KindSharing, _ variation: KindVariation) throws -> TimelineIdentity {
        TimelineIdentity(
            app: "a", kind: "K \"1\"", sharing: sharing, variesBy: variation, family: .systemSmall,
            configuration: try WidgetConfiguration(["b": 1, "a": "é"]),
            environment: try WidgetEnvironment(locale: "en-US", timeZone: "Europe/Berlin"), user: "u\"4")
    }

    @Test func body() throws {
        let id = TimelineID(high: 1, low: 2)
        let cases: [(KindSharing, KindVariation, JSONValue)] = [
            (
                .perUser, .all,
                [
                    "id": .string(id.description), "family": "systemSmall", "configuration": ["a": "é", "b": 1],
                    "environment": ["locale": "en-US", "timeZone": "Europe/Berlin"], "user": "u\"4",
                ]
            ),
            (.shared, [], ["id": .string(id.description), "configuration": ["a": "é", "b": 1]]),
            (
                .shared, [.locale],
                [
                    "id": .string(id.description), "configuration": ["a": "é", "b": 1],
                    "environment": ["locale": "en-US"],
                ]
            ),
            (
                .perUser, [.timeZone],
                [
                    "id": .string(id.description), "configuration": ["a": "é", "b": 1],
                    "environment": ["timeZone": "Europe/Berlin"], "user": "u\"4",
                ]
            ),
        ]
        let items = try cases.map { ProviderRequest.Item(id: id, identity: try identity($0.0, $0.1)) }
        let body = try JSONValue.parse(ProviderRequest(kind: "K \"1\"", items: items).encode())
        #expect(body == ["kind": "K \"1\"", "requests": .array(cases.map(\.2))])
        #expect(ProviderRequest(kind: "k", items: []).encode() == bytes(#"{"kind":"k","requests":[]}"#))
    }
}
