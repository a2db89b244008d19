// SPDX-License-Identifier: Apache-2.0

import Crypto
import Foundation
import Hummingbird
import JSON
import Logging
import NIOCore
import ServiceLifecycle
import Synchronization
import WidgetModel

/// A fault of an app's provider.
enum ProviderFault: Sendable, Equatable, CustomStringConvertible {
    case status(Int, retryAfter: Int?)
    /// No answer.
    case hang
    /// Answers after about this time.
    case slow(Duration)
    /// The connection breaks in the middle of the answer.
    case cut
    /// Answers for timelines that were not requested.
    case foreignIDs
    /// An error for some of the timelines; others are missing or repeated.
    case partial
    /// Invalid JSON.
    case garbage

    var description: String {
        switch self {
        case .status(let code, let retryAfter): "status \(code)\(retryAfter.map { ", retry after \($0) s" } ?? "")"
        case .hang: "hangs"
        case .slow(let delay): "slow (\(ChaosReport.seconds(delay)) s)"
        case .cut: "cuts its answers"
        case .foreignIDs: "foreign ids"
        case .partial: "partial errors"
        case .garbage: "garbage"
        }
    }
}

/// The timeline provider of all apps of the run. It answers with the sources' versions at the time of the request,
/// records everything that it has sent, and checks that each request is for timelines of the app whose secret signed
/// it.
final class ChaosProvider: Sendable {
    private struct State {
        var faults: [String: ProviderFault] = [:]
        /// Content sent for each timeline, including answers that were cut off.
        var given: [TimelineID: Set<Shown>] = [:]
        var fetches = 0
        var timelines = 0
        var isHealing = false
        /// Latency of every answer.
        var latency = Duration.milliseconds(5)
    }

    private let world: ChaosWorld
    private let report: ChaosReport
    private let state = Mutex(State())
    private let random: Mutex<SeededRandom>
    private let portNumber = Mutex(0)

    init(world: ChaosWorld, seed: UInt64, report: ChaosReport) {
        self.world = world
        self.report = report
        random = Mutex(SeededRandom(seed: seed, stream: "provider"))
    }

    var port: Int { portNumber.withLock { $0 } }
    var fetches: Int { state.withLock { $0.fetches } }
    var timelines: Int { state.withLock { $0.timelines } }

    func set(_ fault: ProviderFault?, for app: String) {
        state.withLock { $0.faults[app] = fault }
    }

    func set(latency: Duration) {
        state.withLock { $0.latency = latency }
    }

    /// Stops policies that request further reloads, so that the work ends, and removes all faults.
    func heal() {
        state.withLock { state in
            state.faults = [:]
            state.isHealing = true
            state.latency = .milliseconds(5)
        }
    }

    func hasGiven(_ shown: Shown, for id: TimelineID) -> Bool {
        state.withLock { $0.given[id]?.contains(shown) ?? false }
    }

    /// Runs until cancelled or shut down.
    func application(logger: Logger) -> some ApplicationProtocol {
        let router = Router()
        router.post("/:app/timelines") { [self] request, context in
            try await answer(request, try context.parameters.require("app"), list: "timelines")
        }
        router.post("/:app/snapshot") { [self] request, context in
            try await answer(request, try context.parameters.require("app"), list: "snapshots")
        }
        return Application(
            router: router, configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: 0)),
            onServerRunning: { [self] channel in portNumber.withLock { $0 = channel.localAddress?.port ?? 0 } },
            logger: logger)
    }

    // MARK: Answers

    private struct Item {
        let id: TimelineID
        let shown: Shown
        let policy: JSONValue
        let isVolatile: Bool
    }

    private func answer(_ request: Request, _ path: String, list: String) async throws -> Response {
        let buffer = try await request.body.collect(upTo: 8 << 20)
        let body = Array(buffer.readableBytesView)
        guard let app = world.apps.first(where: { $0.path == path }) else { throw HTTPError(.notFound) }
        guard let items = check(request, body, app) else { throw HTTPError(.badRequest) }
        let (fault, latency) = state.withLock { state in
            state.fetches += 1
            state.timelines += items.count
            for item in items { state.given[item.id, default: []].insert(item.shown) }
            return (state.faults[app.name], state.latency)
        }
        if latency > .zero { try await Task.sleep(for: latency) }
        switch fault {
        case nil: break
        case .slow(let delay):
            let factor = random.withLock { Double.random(in: 0.6..<1.4, using: &$0) }
            try await Task.sleep(for: delay * factor)
        case .hang:
            try await Task.sleep(for: .seconds(20))
            throw HTTPError(.serviceUnavailable)
        case .status(let code, let retryAfter):
            var headers = HTTPFields()
            if let retryAfter { headers[.retryAfter] = "\(retryAfter)" }
            return Response(status: .init(code: code), headers: headers)
        case .garbage:
            return Self.response(Array("{\"timelines\": [{\"id\": ".utf8))
        case .cut, .foreignIDs, .partial: break
        }
        let bytes = encode(items, list: list, fault: fault)
        guard fault == .cut else { return Self.response(bytes) }
        return Response(
            status: .ok, headers: [.contentType: "application/json", .contentLength: "\(bytes.count)"],
            body: ResponseBody { writer in
                try await writer.write(ByteBuffer(bytes: bytes[..<(bytes.count / 2)]))
                throw HTTPError(.internalServerError)
            })
    }

    private func encode(_ items: [Item], list: String, fault: ProviderFault?) -> [UInt8] {
        var elements: [JSONValue] = []
        for item in items {
            let at = item.isVolatile ? random.withLock { $0.integer(0..<1_000_000) } : nil
            var element = JSONObject()
            element["id"] = .string(item.id.description)
            let entries = item.shown.entries(of: item.id, at: at)
            if list == "snapshots" {
                element["entry"] = entries.arrayValue?.first
            } else {
                element["policy"] = item.policy
                element["entries"] = entries
            }
            switch fault {
            case .partial:
                switch random.withLock({ $0.integer(0..<6) }) {
                case 0:
                    elements.append([
                        "id": .string(item.id.description),
                        "error": ["code": "chaos", "message": "not now", "retryAfter": 1],
                    ])
                case 1: break
                case 2: elements += [.object(element), .object(element)]
                default: elements.append(.object(element))
                }
            case .foreignIDs:
                element["id"] = .string(TimelineID(high: item.id.high ^ 1, low: item.id.low).description)
                elements.append(.object(element))
            default: elements.append(.object(element))
            }
        }
        return JSONValue.object(JSONObject([(key: list, value: .array(elements))])).encoded
    }

    private static func response(_ bytes: [UInt8]) -> Response {
        Response(
            status: .ok, headers: [.contentType: "application/json"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: bytes)))
    }

    // MARK: Requests

    /// Returns the requested timelines with the sources' current versions; nil if the app must not send this request.
    private func check(_ request: Request, _ body: [UInt8], _ app: ChaosApp) -> [Item]? {
        report.checked(.separateApps)
        guard isSigned(request, body, app) else {
            report.violated(.separateApps, "a request to \(app.name) is not signed with its secret")
            return nil
        }
        guard let requests = (try? JSONValue.parse(body))?["requests"]?.arrayValue else {
            report.violated(.separateApps, "\(app.name) got a request without a list of timelines: \(body.count) bytes")
            return nil
        }
        var items: [Item] = []
        for element in requests {
            guard let item = item(element, app) else {
                report.violated(
                    .separateApps,
                    "\(app.name) was asked for a timeline that is not its own: "
                        + String(decoding: element.encoded, as: UTF8.self))
                continue
            }
            items.append(item)
        }
        report.checked(.separateApps, items.count)
        return items
    }

    /// Checks that the ID belongs to the identity in the request.
    private func item(_ element: JSONValue, _ app: ChaosApp) -> Item? {
        guard let name = element["kind"]?.stringValue,
            let kind = app.kinds.first(where: { $0.definition.name == name }),
            let id = element["id"]?.stringValue.flatMap({ TimelineID($0) }),
            let configuration = element["configuration"].flatMap({ try? WidgetConfiguration($0) })
        else { return nil }
        let identity = TimelineIdentity(
            app: app.name, kind: kind.definition.name,
            family: element["family"]?.stringValue.flatMap { WidgetFamily(name: $0) }, configuration: configuration,
            locale: element["environment"]?["locale"]?.stringValue,
            timeZone: element["environment"]?["timeZone"]?.stringValue, user: element["user"]?.stringValue)
        guard identity.id == id else { return nil }
        let version = kind.shown(world.version(of: identity, id: id))
        let isHealing = state.withLock { $0.isHealing }
        var dates = ["2026-01-01T00:00:00Z", "2026-01-01T06:00:00Z"]
        var policy: JSONValue = "never"
        switch kind.policy {
        case .never: break
        case .after(let seconds):
            if !isHealing { policy = ["after": .string(Self.next(seconds))] }
        case .atEnd(let seconds):
            dates.append(isHealing ? "2026-01-01T12:00:00Z" : Self.next(seconds))
            if !isHealing { policy = "atEnd" }
        }
        return Item(
            id: id, shown: Shown(version: version, dates: dates), policy: policy, isVolatile: kind.isVolatile)
    }

    private static func next(_ seconds: Int) -> String {
        let now = Int(Date().timeIntervalSince1970)
        let next = ((now + 1) / seconds + 1) * seconds
        return Timestamp(microseconds: Int64(next) * 1_000_000).rfc3339
    }

    /// Checks the signature of Standard Webhooks.
    private func isSigned(_ request: Request, _ body: [UInt8], _ app: ChaosApp) -> Bool {
        func header(_ name: String) -> String? {
            HTTPFields.Element.Name(name).flatMap { request.headers[$0] }
        }
        guard let id = header("webhook-id"), let timestamp = header("webhook-timestamp"),
            let signatures = header("webhook-signature")
        else { return false }
        var content = Data("\(id).\(timestamp).".utf8)
        content.append(contentsOf: body)
        let key = SymmetricKey(data: app.secret)
        return signatures.split(separator: " ").contains { signature in
            guard signature.hasPrefix("v1,"), let code = Data(base64Encoded: String(signature.dropFirst(3))) else {
                return false
            }
            return HMAC<SHA256>.isValidAuthenticationCode(code, authenticating: content, using: key)
        }
    }
}
