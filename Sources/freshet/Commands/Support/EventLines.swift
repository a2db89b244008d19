import Dispatch
import Foundation
import FreshetClient
import FreshetService
import KafkaClient
import PostgresClient
import WidgetEvents
import WidgetModel
import WidgetStore

/// Reads events from lines of JSON: whole CloudEvents, or `{"type", "data"}` with any of `id`, `source`, `time`, `key`.
struct EventLines: Sendable {
    private let decoder = EventDecoder(maximumEventBytes: 1_048_576)
    /// Nil to accept events for any app and kind.
    var targets: TargetCheck?
    let now: @Sendable () -> Timestamp

    func event(_ line: [UInt8]) throws(LineRefused) -> OutgoingEvent {
        var document: JSONValue
        do throws(JSONError) {
            document = try JSONValue.parse(line)
        } catch {
            throw LineRefused(message: "not JSON: \(error)")
        }
        guard case .object(var object) = document else {
            throw LineRefused(message: "expected an object, found \(document.kind.name)")
        }
        guard let name = object["type"]?.stringValue else {
            throw LineRefused(message: "/type: expected the type of an event, such as freshet.push.received.v1")
        }
        guard let type = EventType(rawValue: name) else {
            let known = EventType.allCases.map(\.rawValue)
            let meant = Suggestion.word(for: name, among: known)
            throw LineRefused(message: "/type: unknown event type \(Text.quoted(name))\(meant)")
        }
        let key = object["key"]?.stringValue
        // The short form lacks attributes that have defaults.
        if object["specversion"] == nil { object["specversion"] = "1.0" }
        if object["id"] == nil { object["id"] = .string(RandomID.make()) }
        if object["source"] == nil { object["source"] = .string(Self.source) }
        document = .object(object)
        let decoded = try decode(document.encoded, type)
        // Ingest ignores a wrong time of a push; whoever writes one here wants to know.
        if let time = object["time"], decoded.envelope.time == nil {
            let found = time.stringValue.map { Text.quoted($0) } ?? time.kind.name
            throw LineRefused(message: "/time: expected a time of RFC 3339, found \(found)")
        }
        do throws(TargetCheck.Unknown) {
            try targets?.check(decoded.event)
        } catch {
            throw LineRefused(message: "/data/\(error.member): \(error.message)")
        }
        return OutgoingEvent(
            decoded.event, id: decoded.envelope.id, source: decoded.envelope.source,
            time: decoded.envelope.time ?? now(), key: key, traceparent: decoded.envelope.traceparent)
    }

    static let source = "/freshet/publish"

    private func decode(_ bytes: [UInt8], _ type: EventType) throws(LineRefused) -> DecodedEvent {
        do throws(EventError) {
            return try decoder.decode(
                bytes, headers: [("content-type", EventEncoder.structuredContentType)], topics: [type.topic])
        } catch {
            throw LineRefused(error)
        }
    }
}

extension LineRefused {
    init(_ error: EventError) {
        message = (error.pointer.map { $0.isEmpty ? "" : $0 + ": " } ?? "") + error.message
    }
}

extension EventLines {
    struct Counts: Sendable {
        var published = 0
        var failed = 0
        /// Error of an unreachable broker, which ends publishing.
        var unavailable: KafkaError?
    }

    /// - Parameter complain: called with a message for each line that fails.
    func publish(
        _ reader: LineReader, to publisher: EventPublisher, complain: (String) -> Void
    ) async throws -> Counts {
        var counts = Counts()
        let refused = try await reader.chunks(of: 500, decode: event, complain: complain) { events in
            let results = await publisher.publish(events.map(\.value))
            for (event, result) in zip(events, results) {
                switch result {
                case .success: counts.published += 1
                case .failure(let error):
                    counts.failed += 1
                    complain("line \(event.line): \(error)")
                    if error.code == .messageTimedOut || error.code == .timedOut { counts.unavailable = error }
                }
            }
            return counts.unavailable == nil
        }
        counts.failed += refused
        return counts
    }
}

/// Error of a line that cannot be used.
struct LineRefused: Error, Hashable, Sendable {
    let message: String
}

/// Reads the lines of a file or of standard input on a thread of its own, since a pipe or terminal blocks.
struct LineReader: Sendable {
    private static let queue = DispatchQueue(label: "freshet.lines")

    private let handle: FileHandle
    private let name: String
    private let maximumBytes: Int

    /// - Parameters:
    ///   - path: a file; `-` is standard input.
    ///   - maximumBytes: longest line; longer ones are refused.
    init(_ path: String, maximumBytes: Int) throws(CommandFailure) {
        name = path == "-" ? "standard input" : "the file \(path)"
        self.maximumBytes = maximumBytes
        guard let handle = path == "-" ? FileHandle.standardInput : FileHandle(forReadingAtPath: path) else {
            throw CommandFailure(.failure, "\(name) cannot be opened: \(String(cString: strerror(errno)))")
        }
        self.handle = handle
    }

    /// Decodes the lines that are not blank, and hands them on in chunks until `handle` returns false.
    ///
    /// - Parameter complain: called with a message for each refused line.
    /// - Returns: the number of refused lines.
    func chunks<Value>(
        of size: Int, decode: ([UInt8]) throws(LineRefused) -> Value, complain: (String) -> Void,
        handle: ([(line: Int, value: Value)]) async throws -> Bool
    ) async throws -> Int {
        var pending: [(line: Int, value: Value)] = []
        var (number, refused) = (0, 0)
        // The rest of a line that is too long is not kept.
        var line: [UInt8] = []
        func append(_ bytes: ArraySlice<UInt8>) { line += bytes.prefix(maximumBytes + 2 - line.count) }
        func take() {
            number += 1
            defer { line.removeAll(keepingCapacity: true) }
            if line.last == UInt8(ascii: "\r") { line.removeLast() }
            do throws(LineRefused) {
                guard line.count <= maximumBytes else {
                    throw LineRefused(message: "longer than \(maximumBytes) bytes")
                }
                if line.allSatisfy({ $0 == 0x20 || $0 == 0x09 }) { return }
                pending.append((number, try decode(line)))
            } catch {
                refused += 1
                complain("line \(number): \(error.message)")
            }
        }
        while true {
            var bytes = try await read()[...]
            if bytes.isEmpty { break }
            while let end = bytes.firstIndex(of: UInt8(ascii: "\n")) {
                append(bytes[..<end])
                bytes = bytes[(end + 1)...]
                take()
                guard pending.count >= size else { continue }
                guard try await handle(pending) else { return refused }
                pending.removeAll(keepingCapacity: true)
            }
            append(bytes)
        }
        if !line.isEmpty { take() }
        if !pending.isEmpty { _ = try await handle(pending) }
        return refused
    }

    /// The next bytes; empty at the end.
    private func read() async throws(CommandFailure) -> [UInt8] {
        let outcome = await withCheckedContinuation { continuation in
            Self.queue.async { [handle] in
                continuation.resume(returning: Result { Array(try handle.read(upToCount: 1 << 16) ?? Data()) })
            }
        }
        do {
            return try outcome.get()
        } catch {
            throw CommandFailure(.failure, "\(name) cannot be read: \(BoundedFile.reason(error))")
        }
    }
}

/// Checks that the apps and kinds that events name are registered, so that they do not become dead letters.
struct TargetCheck: Sendable {
    struct Unknown: Error, Hashable, Sendable {
        let member: String
        let message: String
    }

    let directory: KindDirectory

    /// Reads the directory; nil for none, without a configured database or with `--no-check`.
    static func load(_ settings: Settings, noCheck: Bool) async throws -> TargetCheck? {
        guard !noCheck, settings.postgres.url != nil else { return nil }
        return try await settings.withPool { pool in
            try await SchemaCheck.require(on: pool)
            return TargetCheck(directory: try await DirectoryCache(pool: pool).refresh())
        }
    }

    func app(_ name: String) throws(Unknown) -> RegisteredApp {
        guard let app = directory.apps[name], Text.equal(app.name, name) else {
            let meant = Suggestion.word(for: name, among: directory.apps.keys.sorted())
            throw Unknown(member: "app", message: "no app \(Text.quoted(name)) is registered\(meant)")
        }
        return app
    }

    func kind(_ name: String, of app: RegisteredApp, member: String = "kind") throws(Unknown) -> RegisteredKind {
        guard let kind = directory.kind(name, of: app), Text.equal(kind.definition.name, name) else {
            if let kind = directory.unreadableKind(name, of: app) {
                throw Unknown(member: member, message: kind.message)
            }
            let meant = Suggestion.word(for: name, among: directory.kinds(of: app).keys.sorted())
            throw Unknown(
                member: member, message: "app \(Text.quoted(app.name)) has no kind \(Text.quoted(name))\(meant)")
        }
        return kind
    }

    func check(_ event: FreshetEvent) throws(Unknown) {
        let app = try app(event.app)
        switch event.change {
        case .reload(let request):
            guard case .kinds(let names) = request.kinds else { return }
            // A reload needs no definition.
            for name in names where directory.unreadableKind(name, of: app) == nil {
                _ = try kind(name, of: app, member: "kinds")
            }
        case .widget(.placed(let placement)): _ = try kind(placement.kind, of: app)
        case .widget, .view, .device, .person, .interaction: break
        }
    }
}
