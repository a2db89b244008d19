// SPDX-License-Identifier: Apache-2.0

import Crypto
import Hummingbird
import JSON
package import Logging
import NIOCore
import Randomness
import ServiceLifecycle
import Synchronization
package import WidgetModel

/// A timeline provider for demonstrations and tests: a bank, Emoji Rangers and the weather, over HTTP.
///
/// Its answers depend on the seed, the requested content, the injected clock, and the number of earlier requests for
/// the same content.
package final class SampleProvider: Service, Sendable {
    /// Faults that are injected.
    package struct Faults: Sendable {
        /// Delay of every answer.
        let latency: Duration
        /// Share of requests that are answered with 503, from 0 to 1.
        let requestFailures: Double
        /// Whether the first request fails, so that a small demo has a failure too.
        let failsFirst: Bool
        /// Share of timelines that are answered with an error of their own, from 0 to 1.
        let timelineFailures: Double
        /// Apps whose requests and timelines fail.
        let apps: Set<SampleApp>

        package init(
            latency: Duration = .zero, requestFailures: Double = 0, failsFirst: Bool = false,
            timelineFailures: Double = 0, apps: Set<SampleApp> = Set(SampleApp.allCases)
        ) {
            self.latency = latency
            self.requestFailures = requestFailures
            self.failsFirst = failsFirst
            self.timelineFailures = timelineFailures
            self.apps = apps
        }
    }

    let seed: UInt64
    let faults: Faults
    /// Interval at which each content changes; nil: with every request.
    let changeInterval: Duration?
    let now: @Sendable () -> Timestamp
    let counters: Mutex<SampleStatistics>
    /// A number for each content that grows with every fetch, in a fixed amount of memory for any number of contents.
    private let revisions = Mutex(RevisionCounters())
    let keys: [SampleApp: SymmetricKey]
    let loadAnswer: LoadAnswer
    /// Counts the timelines for load tests: no two have the same content.
    let loadNumber: Atomic<UInt64>

    private let address: BindAddress
    private let onListening: @Sendable (Int) -> Void
    private let logger: Logger

    /// Largest body of a request.
    static let maximumRequestBytes = 8 * 1_024 * 1_024

    /// - Parameters:
    ///   - seed: of the content.
    ///   - port: 0 lets the system choose.
    ///   - keys: apps whose requests must be signed, with the bytes of their secrets.
    ///   - changeInterval: interval at which each content changes; nil: every request for a timeline shows a change.
    ///   - maximumTracked: number of timelines that are counted individually.
    ///   - now: clock for the dates of the content.
    ///   - onListening: called with the port once the provider listens.
    package init(
        seed: UInt64, host: String = "127.0.0.1", port: Int = 0, keys: [SampleApp: [UInt8]] = [:],
        faults: Faults = Faults(), changeInterval: Duration? = nil, maximumTracked: Int = 100_000,
        now: @escaping @Sendable () -> Timestamp = Timestamp.now,
        logger: Logger = Logger(label: "freshet.provider"), onListening: @escaping @Sendable (Int) -> Void = { _ in }
    ) {
        self.seed = seed
        self.faults = faults
        self.changeInterval = changeInterval
        self.now = now
        self.logger = logger
        self.onListening = onListening
        self.counters = Mutex(SampleStatistics(maximumTracked: maximumTracked))
        self.keys = keys.mapValues { SymmetricKey(data: $0) }
        self.loadAnswer = LoadAnswer(now: now())
        self.loadNumber = Atomic(seed % 1_000_000 * 1_000)
        self.address = .hostname(host, port: port)
    }

    /// Serves until the task is cancelled or the service group shuts down.
    package func run() async throws {
        let application = Application(
            router: router(), configuration: ApplicationConfiguration(address: address, serverName: "freshet-provider"),
            onServerRunning: { [onListening] channel in
                guard let port = channel.localAddress?.port else { return }
                onListening(port)
            },
            logger: logger)
        try await application.run()
    }

    /// Requests so far.
    package func statistics<Value: Sendable>(_ read: (SampleStatistics) -> Value) -> Value {
        counters.withLock { read($0) }
    }

    /// `{"timelines": […]}`, and the outcome of each timeline; nil if the whole request fails as an injected fault.
    func timelines(
        _ batch: [SampleRequest], of app: SampleApp, contents: [SampleContent], at time: Timestamp
    ) -> (bytes: [UInt8], answers: [SampleStatistics.Answer])? {
        let states = states(of: batch, at: time)
        // The same requests fail in every run, in any order.
        let batchIdentity = zip(batch, states).reduce(UInt64(0)) { sum, fetch in
            sum &+ SeededGenerator.mix(fetch.0.identity &+ UInt64(fetch.1.revision))
        }
        let isFaulty = faults.apps.contains(app)
        guard !isFaulty || !fails(batchIdentity, share: faults.requestFailures) else { return nil }

        var answers: [SampleStatistics.Answer] = []
        var timelines: [JSONValue] = []
        for ((request, content), state) in zip(zip(batch, contents), states) {
            let isFailed =
                isFaulty && fails(request.identity &+ UInt64(state.revision), share: faults.timelineFailures)
            if isFailed {
                timelines.append([
                    "id": .string(request.id),
                    "error": ["code": "unavailable", "message": "a fault that was asked for"],
                ])
            } else {
                let timeline = content.timeline(
                    SampleMoment(request: request, revision: state.revision, seed: seed, now: state.time))
                timelines.append([
                    "id": .string(request.id), "policy": timeline.policy, "entries": .array(timeline.entries),
                ])
            }
            answers.append((request, state.revision, isFailed))
        }
        return (JSONValue.object(["timelines": .array(timelines)]).encoded, answers)
    }

    /// Number of each content's last change, and the first of its dates.
    private func states(of requests: [SampleRequest], at time: Timestamp) -> [(revision: Int, time: Timestamp)] {
        guard let changeInterval else {
            return revisions.withLock { $0.next(of: requests.lazy.map(\.identity)) }.map { ($0, time) }
        }
        return requests.map { lastChange(of: $0, every: changeInterval, at: time) }
    }

    /// The last change of a content that changes with time. Contents change at different seconds.
    private func lastChange(
        of request: SampleRequest, every interval: Duration, at time: Timestamp
    ) -> (revision: Int, time: Timestamp) {
        let seconds = max(2, interval.wholeMicroseconds / 1_000_000)
        let offset = 1 + Int64(SeededGenerator.mix(request.identity) % UInt64(seconds - 1))
        let number = (time.microseconds / 1_000_000 - offset) / seconds
        return (Int(number), Timestamp(microseconds: (number * seconds + offset) * 1_000_000))
    }

    /// The fast answer to a load test's request; nil if faults are injected, or the body is not such a request.
    func loadTimelines(_ body: [UInt8]) -> Response? {
        guard faults.latency == .zero, faults.requestFailures == 0, faults.timelineFailures == 0 else { return nil }
        // As many numbers as any request may have timelines.
        let number = loadNumber.wrappingAdd(UInt64(SampleRequest.maximumBatch), ordering: .relaxed).oldValue
        guard let answer = loadAnswer.answer(body, from: number) else { return nil }
        counters.withLock { $0.count(answer.kinds, of: .load) }
        return Self.respond(.ok, answer.bytes)
    }

    /// `{"snapshots": [{"id", "entry"}]}`; the revision stays as it is, as nothing is regenerated.
    func snapshots(_ batch: [SampleRequest], contents: [SampleContent], at time: Timestamp) -> [UInt8] {
        list("snapshots", of: batch, contents, "entry") { request, content in
            let state = changeInterval.map { lastChange(of: request, every: $0, at: time) } ?? (revision: 0, time: time)
            return content.timeline(
                SampleMoment(request: request, revision: state.revision, seed: seed, now: state.time)
            ).entries[0]
        }
    }

    /// `{"placeholders": [{"id", "content"}]}`
    func placeholders(_ batch: [SampleRequest], contents: [SampleContent]) -> [UInt8] {
        list("placeholders", of: batch, contents, "content") { _, content in content.placeholder }
    }

    /// `{"sections": [{"title", "options": [{"identifier", "display"}]}]}`
    private func json(of sections: [SampleSection]) -> JSONValue {
        let sections = sections.map { section -> JSONValue in
            ["title": .string(section.title), "options": .array(section.options.map(json))]
        }
        return ["sections": .array(sections)]
    }

    private func json(of option: SampleSection.Option) -> JSONValue {
        ["identifier": .string(option.identifier), "display": .string(option.display)]
    }

    private func list(
        _ name: String, of batch: [SampleRequest], _ contents: [SampleContent], _ member: String,
        value: (SampleRequest, SampleContent) -> JSONValue
    ) -> [UInt8] {
        let elements = zip(batch, contents).map { request, content -> JSONValue in
            ["id": .string(request.id), member: value(request, content)]
        }
        return JSONValue.object([name: .array(elements)]).encoded
    }

    private func fails(_ identity: UInt64, share: Double) -> Bool {
        guard share > 0 else { return false }
        return Double(SeededGenerator.mix(identity ^ seed) >> 11) / Double(UInt64(1) << 53) < share
    }
}

extension SampleProvider {
    /// Answers a request for timelines at a time, as over HTTP; nil unless one of the apps has all the kinds.
    package func timelines(_ body: [UInt8], at time: Timestamp) -> [UInt8]? {
        for app in SampleApp.allCases where app != .load {
            guard let batch = try? SampleRequest.batch(body, app: app), let contents = batch.contents(of: app) else {
                continue
            }
            return timelines(batch, of: app, contents: contents, at: time)?.bytes
        }
        return nil
    }
}

/// A request that is refused, as its answer.
private struct SampleRefusal: Error {
    let status: HTTPResponse.Status
    let code: String
    let message: String
    var pointer: String?

    var response: Response {
        var error: JSONObject = ["code": .string(code), "message": .string(message)]
        error["pointer"] = pointer.map { .string($0) }
        return SampleProvider.respond(status, ["error": .object(error)])
    }
}

extension SampleProvider {
    func router() -> Router<BasicRequestContext> {
        let router = Router(context: BasicRequestContext.self)
        for app in SampleApp.allCases {
            for endpoint in ProviderEndpoint.allCases {
                router.post("\(app.rawValue)/\(endpoint.rawValue)") { [self] request, _ in
                    try await answer(request, app: app, endpoint: endpoint)
                }
            }
        }
        router.get("stats") { [self] _, _ in Self.respond(.ok, statistics(\.json)) }
        router.get("stats/timelines/:id") { [self] _, context in
            guard let id = context.parameters.get("id"), let fetches = counters.withLock({ $0.fetches[id] }) else {
                return SampleRefusal(status: .notFound, code: "notFetched", message: "never fetched").response
            }
            return Self.respond(.ok, fetches.json(id: id))
        }
        return router
    }

    private func answer(_ request: Request, app: SampleApp, endpoint: ProviderEndpoint) async throws -> Response {
        do {
            let body: ByteBuffer
            do {
                body = try await request.body.collect(upTo: Self.maximumRequestBytes)
            } catch is NIOTooManyBytesError {
                throw SampleRefusal(
                    status: .contentTooLarge, code: "tooLarge",
                    message: "the body has more than \(Self.maximumRequestBytes) bytes")
            }
            let bytes = Array(body.readableBytesView)
            try checkSignature(of: request, body: bytes, app: app)
            if app == .load, endpoint == .timelines, let answer = loadTimelines(bytes) { return answer }
            if endpoint == .options || endpoint == .defaults {
                return try await choices(bytes, app: app, endpoint: endpoint)
            }
            let batch = try parsed { () throws(JSONError) in try SampleRequest.batch(bytes, app: app) }
            guard let contents = batch.contents(of: app) else { throw unknownKind(app) }
            if faults.latency > .zero { try await Task.sleep(for: faults.latency) }
            return respond(to: batch, app: app, endpoint: endpoint, contents: contents)
        } catch let refusal as SampleRefusal {
            counters.withLock { $0.rejectedRequests += 1 }
            return refusal.response
        }
    }

    private func parsed<Value>(_ parse: () throws(JSONError) -> Value) throws(SampleRefusal) -> Value {
        do throws(JSONError) {
            return try parse()
        } catch {
            throw SampleRefusal(status: .badRequest, code: "malformed", message: error.message, pointer: error.pointer)
        }
    }

    private func unknownKind(_ app: SampleApp) -> SampleRefusal {
        SampleRefusal(
            status: .notFound, code: "unknownKind",
            message: "\(app.rawValue) has the kinds \(app.kinds.joined(separator: ", "))")
    }

    /// Options of a parameter, or defaults of a kind.
    private func choices(_ bytes: [UInt8], app: SampleApp, endpoint: ProviderEndpoint) async throws -> Response {
        let question = try parsed { () throws(JSONError) in try JSONValue.parse(bytes) }
        guard let content = app.content(of: question["kind"]?.stringValue ?? "") else { throw unknownKind(app) }
        if faults.latency > .zero { try await Task.sleep(for: faults.latency) }
        counters.withLock { $0.otherRequests += 1 }
        guard endpoint == .options else {
            let values = content.defaults.map { (key: $0.key, value: json(of: $0.value)) }
            return Self.respond(.ok, ["values": .object(JSONObject(values))])
        }
        let parameter = question["parameter"]?.stringValue ?? ""
        guard let sections = content.options(of: parameter, search: question["search"]?.stringValue) else {
            throw SampleRefusal(
                status: .unprocessableContent, code: "unknownParameter", message: "no such parameter",
                pointer: "/parameter")
        }
        return Self.respond(.ok, json(of: sections))
    }

    private func checkSignature(of request: Request, body: [UInt8], app: SampleApp) throws(SampleRefusal) {
        guard let key = keys[app] else { return }
        func header(_ name: String) -> String? {
            request.headers.first { $0.name.canonicalName == name }?.value
        }
        let problem = SampleRequest.signatureProblem(
            id: header("webhook-id"), timestamp: header("webhook-timestamp"), signature: header("webhook-signature"),
            body: body, key: key, now: now())
        if let problem { throw SampleRefusal(status: .unauthorized, code: "unauthorized", message: problem) }
    }

    private func respond(
        to batch: [SampleRequest], app: SampleApp, endpoint: ProviderEndpoint, contents: [SampleContent]
    ) -> Response {
        let time = now()
        switch endpoint {
        case .timelines:
            let isFirst =
                faults.failsFirst && faults.apps.contains(app)
                && counters.withLock { statistics in
                    defer { statistics.failedRequests += statistics.failedRequests == 0 ? 1 : 0 }
                    return statistics.failedRequests == 0
                }
            let answer = isFirst ? nil : timelines(batch, of: app, contents: contents, at: time)
            guard let (bytes, answers) = answer else {
                if !isFirst { counters.withLock { $0.failedRequests += 1 } }
                return SampleRefusal(
                    status: .serviceUnavailable, code: "unavailable", message: "a fault that was asked for"
                ).response
            }
            counters.withLock { $0.count(answers, of: app, at: time) }
            return Self.respond(.ok, bytes)
        case .snapshot:
            counters.withLock { $0.otherRequests += 1 }
            return Self.respond(.ok, snapshots(batch, contents: contents, at: time))
        case .placeholder, .options, .defaults:
            counters.withLock { $0.otherRequests += 1 }
            return Self.respond(.ok, placeholders(batch, contents: contents))
        }
    }

    fileprivate static func respond(_ status: HTTPResponse.Status, _ json: JSONValue) -> Response {
        respond(status, json.encoded)
    }

    private static func respond(_ status: HTTPResponse.Status, _ bytes: [UInt8]) -> Response {
        Response(
            status: status, headers: [.contentType: "application/json"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: bytes)))
    }
}

/// A number for each content that grows with every fetch, in a fixed amount of memory for any number of contents.
///
/// Contents that share a counter make each other's numbers skip; they never make one repeat, so that a fetch always
/// shows.
struct RevisionCounters {
    private var counters: [UInt32]

    init(count: Int = 1 << 20) {
        counters = Array(repeating: 0, count: count)
    }

    /// The next number of each content, from 1.
    mutating func next(of identities: some Collection<UInt64>) -> [Int] {
        identities.map { identity in
            let index = Int(identity % UInt64(counters.count))
            counters[index] &+= 1
            return Int(counters[index])
        }
    }
}
