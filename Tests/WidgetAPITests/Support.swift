// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Hummingbird
import HummingbirdTesting
import JSON
import KafkaClient
import Logging
import PostgresClient
import Synchronization
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import WidgetAPI

extension Tag {
    @Tag static var api: Self
}

let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

/// Messages that the API has published.
final class PublishedMessages: Sendable {
    private let messages = Mutex<[KafkaMessage]>([])

    var all: [KafkaMessage] { messages.withLock { $0 } }

    func outlet() -> EventOutlet {
        EventOutlet(topics: [:]) { sent in
            self.messages.withLock { messages in
                sent.map { message in
                    messages.append(message)
                    return .success(KafkaDelivery(partition: 0, offset: Int64(messages.count - 1)))
                }
            }
        }
    }

    /// Handling requested by the events.
    func handlings() throws -> [EventHandling] {
        try all.map { message in
            var bytes: [UInt8] = []
            var attributes = EventAttributes()
            for header in message.headers {
                let start = bytes.count
                bytes += Array(header.name.utf8)
                let middle = bytes.count
                bytes += header.value ?? []
                attributes.note(name: start..<middle, value: middle..<bytes.count, in: bytes)
            }
            return try EventHandling(attributes, in: bytes)
        }
    }

    /// Events, decoded as by ingest.
    func events() throws -> [DecodedEvent] {
        try all.map { message in
            var bytes = message.value ?? []
            let value = 0..<bytes.count
            var headers: [(name: Range<Int>, value: Range<Int>?)] = []
            for header in message.headers {
                let name = bytes.count..<(bytes.count + header.name.utf8.count)
                bytes += Array(header.name.utf8)
                let start = bytes.count
                bytes += header.value ?? []
                headers.append((name, start..<bytes.count))
            }
            let topic = EventTopic.allCases.first { $0.defaultName == message.topic } ?? .pushes
            return try EventDecoder().decode(bytes: bytes, value: value, headers: headers, topic: topic)
        }
    }
}

/// Keys and tokens of the tests.
struct TestTokens: Sendable {
    let jwks: JSONValue
    let keys: TokenKeys

    /// A key set with a key for each algorithm: `hs`, `es` and `ed`.
    static func make() async throws -> TestTokens {
        let jwks: JSONValue = [
            "keys": [
                TokenKeys.makeKey(.hs256, id: "hs"), TokenKeys.makeKey(.es256, id: "es"),
                TokenKeys.makeKey(.eddsa, id: "ed"),
            ]
        ]
        return TestTokens(jwks: jwks, keys: try await TokenKeys(jwks: jwks.encoded))
    }

    func store(logger: Logger = quiet) -> TokenKeyStore {
        let bytes = jwks.encoded
        return TokenKeyStore(logger: logger) { bytes }
    }

    func token(
        app: String = TestKinds.app, user: String? = nil, scopes: [TokenScope] = TokenScope.allCases,
        key: String = "hs", subject: String = "tester", from start: Duration? = nil,
        until end: Duration = .seconds(600)
    ) async throws -> String {
        let now = Timestamp.now()
        return try await keys.issue(
            app: app, user: user, scopes: scopes, subject: subject, notBefore: start.map { now + $0 },
            expiresAt: now + end, keyID: key)
    }
}

/// The API of a test, with a token for all scopes.
struct TestAPI: Sendable {
    let client: any TestClientProtocol
    let tokens: TestTokens
    let token: String
    let published: PublishedMessages
    let changes: TimelineChanges

    struct Answer: Sendable {
        let status: Int
        let headers: HTTPFields
        let text: String
        /// Bytes of the body.
        let length: Int

        var contentType: String? { headers[.contentType] }
        var document: JSONValue { (try? JSONValue.parse(text)) ?? .null }
    }

    enum Bearer: Sendable {
        case everything
        case token(String)
        case nobody
    }

    func ask(
        _ method: HTTPRequest.Method, _ path: String, as bearer: Bearer = .everything, body: JSONValue? = nil,
        raw: String? = nil, headers: HTTPFields = [:]
    ) async throws -> Answer {
        var headers = headers
        switch bearer {
        case .everything: headers[.authorization] = "Bearer \(token)"
        case .token(let token): headers[.authorization] = "Bearer \(token)"
        case .nobody: break
        }
        let bytes = body?.encoded ?? raw.map { Array($0.utf8) }
        if bytes != nil, headers[.contentType] == nil { headers[.contentType] = "application/json" }
        return try await client.execute(
            uri: path, method: method, headers: headers, body: bytes.map { ByteBuffer(bytes: $0) }
        ) { response in
            Answer(
                status: response.status.code, headers: response.headers, text: String(buffer: response.body),
                length: response.body.readableBytes)
        }
    }

    /// Sends a GET request; returns the JSON with status and content type.
    func json(
        _ path: String, as bearer: Bearer = .everything
    ) async throws -> (status: Int, contentType: String?, document: JSONValue) {
        let answer = try await ask(.get, path, as: bearer)
        return (answer.status, answer.contentType, answer.document)
    }
}

extension APIConfiguration {
    /// A configuration with a port chosen by the system, without a quota of dead letters. Waits for outcomes are longer
    /// than a busy machine can stall.
    static func test(_ change: (inout APIConfiguration) -> Void = { _ in }) -> APIConfiguration {
        var configuration = APIConfiguration()
        configuration.port = 0
        configuration.deadLetterQuota = 0
        configuration.outcomeWait = Patience.limit
        change(&configuration)
        return configuration
    }
}

extension APIResources {
    init(keys: TokenKeyStore?, events: EventOutlet? = nil, changes: TimelineChanges = TimelineChanges()) {
        self.init()
        self.keys = keys
        self.events = events
        self.changes = changes
    }
}

/// Creates the API's router on a store with the test kinds, and passes it to the closure.
func withAPI(
    _ store: TestStore, hasKeys: Bool = true, checks: [ReadinessCheck] = [],
    configuration: APIConfiguration = APIConfiguration.test(), changes: TimelineChanges = TimelineChanges(),
    tokens given: TestTokens? = nil, keys file: TokenKeyStore? = nil, logger: Logger = quiet,
    providerProblem: @escaping @Sendable (ProviderURL) async -> String? = { _ in nil },
    askProvider: @escaping @Sendable (String, [[UInt8]]) async -> TrialFailure? = { _, _ in nil },
    configurations: (any ConfigurationProvider)? = nil, fetches: FetchRecorder? = nil,
    console: ConsoleConfiguration? = nil, isLive: Bool = false,
    _ body: @Sendable (TestAPI) async throws -> Void
) async throws {
    let tokens: TestTokens
    if let given { tokens = given } else { tokens = try await TestTokens.make() }
    let keys = file ?? tokens.store()
    try await keys.load()
    let published = PublishedMessages()
    var resources = APIResources(keys: hasKeys ? keys : nil, events: published.outlet(), changes: changes)
    resources.providerProblem = providerProblem
    resources.askProvider = askProvider
    resources.configurations = configurations
    resources.fetches = fetches
    let service = APIService(
        configuration: configuration, store: store.store, resources: resources, console: console,
        readiness: Readiness(checks: checks), logger: logger)
    let router = console?.port == nil ? service.router() : try #require(service.consoleRouter())
    let application = Application(router: router, logger: quiet)
    let token = try await tokens.token()
    try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { await service.pollOutcomes() }
        try await application.test(isLive ? .live : .router) { client in
            try await body(
                TestAPI(client: client, tokens: tokens, token: token, published: published, changes: changes))
        }
        group.cancelAll()
    }
}

extension TestClientProtocol {
    /// Sends a GET request without a token; returns the JSON with status and content type.
    func json(_ path: String) async throws -> (status: Int, contentType: String?, document: JSONValue) {
        try await execute(uri: path, method: .get) { response in
            (
                response.status.code, response.headers[.contentType],
                try JSONValue.parse(Array(response.body.readableBytesView))
            )
        }
    }
}

extension TestAPI {
    /// Base path of the tests' app.
    static let base = "/v1/apps/com.example.bank"
    static let environment: JSONValue = ["locale": "en-GB", "timeZone": "Europe/London"]
    /// Body that places a widget.
    static let placement: JSONValue = [
        "user": "u1", "device": "d1", "kind": "Purchases", "family": "systemSmall", "configuration": ["card": "acme"],
        "environment": environment,
    ]
}

extension TestStore {
    /// Stores content for a timeline, as the workers do.
    func saveContent(_ id: TimelineID, hash: Int, content: String = "1") async throws {
        try await saveStored(
            """
            {"entries":[{"content":\(content),"date":"2020-01-01T00:00:00Z"},\
            {"content":"later","date":"2030-01-01T00:00:00Z"}],"policy":"never"}
            """, id, hash: hash)
    }

    /// Stores the arrangement and the schedule of a user's stack `home`.
    func saveSchedule(of user: String, device: String = "d1", widget: String? = nil, revision: Int64) async throws {
        let key = StackPlan.Key(app: TestKinds.app, user: user, device: device, stack: "home")
        var person = PersonRecord()
        for device in Set(["d1", device]).sorted() {
            let stack = StackArrangement(device: device, name: "home", widgets: [widget ?? "w-\(device)"])
            _ = person.apply(.stack(stack), at: Timestamp(microseconds: 1))
        }
        let plan = StackPlan(key: key, schedule: StackSchedule(), plannedAt: Timestamp(microseconds: 1))
        try await store.wantSchedule(key)
        try await sql(
            """
            UPDATE stack_schedule SET revision = \(revision), due_at = 'infinity', schedule = '\(plan.json.canonical)'
            WHERE id = '\(key.id)';
            INSERT INTO person (app_id, user_id, arrangement)
            SELECT a.id, '\(user)', '\(person.storedArrangement)' FROM app a WHERE a.name = '\(TestKinds.app)'
            ON CONFLICT (app_id, user_id) DO UPDATE SET arrangement = excluded.arrangement
            """)
    }

    /// Stores JSON of policy and entries for a timeline.
    func saveStored(_ json: String, _ id: TimelineID, hash: Int) async throws {
        let digits = "00000000-0000-0000-0000-\(String(repeating: "0", count: 12 - "\(hash)".count))\(hash)"
        try await sql(
            """
            UPDATE timeline SET hash = '\(digits)', content_revision = \(hash), revision = \(hash), content = '\(json)',
                stored_at = now()
            WHERE identity = '\(id)'
            """)
    }
}
