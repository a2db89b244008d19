// SPDX-License-Identifier: Apache-2.0

import Dispatch
import Foundation
package import FreshetClient
package import JSON
package import KafkaClient
import PostgresClient
package import WidgetEvents
package import WidgetModel
package import WidgetStore

/// Reads events from lines of JSON: whole CloudEvents, or `{"type", "data"}` with any of `id`, `source`, `time`, `key`.
package struct EventLines: Sendable {
    private let decoder = EventDecoder(maximumEventBytes: 1_048_576)
    private let targets: KindDirectory?
    private let now: @Sendable () -> Timestamp

    /// A line whose object was read, with the attributes that it may leave out or that the decoder does not read.
    package struct Line {
        let bytes: [UInt8]
        package let attributes: JSONObject
        /// Place of the object.
        let object: Range<Int>
        /// Place of the event's data; nil without it.
        package let data: Range<Int>?

        package var type: String? { attributes["type"]?.stringValue }
    }

    /// - Parameter targets: registered apps and kinds; nil to accept events for any.
    package init(targets: KindDirectory? = nil, now: @escaping @Sendable () -> Timestamp) {
        (self.targets, self.now) = (targets, now)
    }

    package func event(_ bytes: [UInt8]) throws(ModelError) -> OutgoingEvent { try outgoingEvent(Line(bytes)) }

    package func outgoingEvent(_ line: Line) throws(ModelError) -> OutgoingEvent {
        let attributes = line.attributes
        guard let name = line.type else {
            throw ModelError(
                message: "expected the type of an event, such as freshet.push.received.v1", pointer: "/type")
        }
        guard let type = EventType(rawValue: name) else {
            let known = EventType.allCases.map(\.rawValue)
            let hint = name.hint(among: known)
            throw ModelError(message: "unknown event type \(Text.quoted(name))\(hint)", pointer: "/type")
        }
        // The short form lacks attributes that have defaults.
        let event = JSONWriter.object(capacity: line.bytes.count + 256) { event in
            if attributes["specversion"] == nil { event.append("specversion", "1.0") }
            if attributes["id"] == nil { event.append("id", String.randomID()) }
            if attributes["source"] == nil { event.append("source", Self.source) }
            event.appendMembers(of: line.bytes[line.object])
        }
        let decoded = try decode(event, type)
        // Ingest ignores a wrong time of a push; whoever writes one here wants to know.
        if let time = attributes["time"], decoded.time == nil {
            let found = time.stringValue.map { Text.quoted($0) } ?? time.kind.name
            throw ModelError(message: "expected a time of RFC 3339, found \(found)", pointer: "/time")
        }
        let problems = targets?.problems(with: decoded.event).map { $0.moved(below: "/data") } ?? []
        if let error = ModelError(joining: problems) { throw error }
        return OutgoingEvent(
            decoded.event, id: decoded.id, source: decoded.source,
            time: decoded.time ?? now(), key: attributes["key"]?.stringValue, traceparent: decoded.traceparent)
    }

    package static let source = "/freshet/publish"

    private func decode(_ bytes: [UInt8], _ type: EventType) throws(ModelError) -> DecodedEvent {
        do throws(EventError) {
            return try decoder.decode(structured: bytes, in: 0..<bytes.count, topics: [type.topic])
        } catch {
            throw ModelError(error)
        }
    }
}

extension EventLines.Line {
    package init(_ bytes: [UInt8]) throws(ModelError) {
        var reader = JSONReader(bytes)
        var attributes = JSONObject()
        var kind = JSONKind.null
        var object = 0..<0
        var data: Range<Int>?
        do throws(JSONError) {
            kind = try reader.peek()
            let start = reader.position
            if kind == .object {
                try reader.beginObject()
                while let key = try reader.nextKey() {
                    switch key {
                    case "type", "time", "key", "specversion", "id", "source":
                        attributes[reader.text(of: key)] = try reader.value()
                    case "data": data = try reader.skip()
                    default: try reader.skip()
                    }
                }
            } else {
                try reader.skip()
            }
            object = start..<reader.position
            try reader.finish()
        } catch {
            throw ModelError(message: "not JSON: \(error)")
        }
        guard kind == .object else { throw ModelError(message: "expected an object, found \(kind.name)") }
        self.init(bytes: bytes, attributes: attributes, object: object, data: data)
    }
}

extension ModelError {
    package init(_ error: EventError) {
        self.init(message: error.message, pointer: error.pointer ?? "")
    }
}

extension EventLines {
    /// - Parameter complain: called with a message for each line that fails.
    /// - Returns: numbers of events, and the error of an unreachable broker, which ends publishing.
    package func publish(
        _ reader: LineReader, to publisher: EventPublisher, complain: (String) -> Void
    ) async throws -> (published: Int, failed: Int, unavailable: KafkaError?) {
        var counts: (published: Int, failed: Int, unavailable: KafkaError?) = (0, 0, nil)
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

/// Reads the lines of a file or of standard input on a thread of its own, since a pipe or terminal blocks.
package struct LineReader: Sendable {
    private static let queue = DispatchQueue(label: "freshet.lines")

    private let handle: FileHandle
    private let name: String
    private let maximumBytes: Int

    /// - Parameters:
    ///   - path: a file; `-` is standard input.
    ///   - maximumBytes: longest line; longer ones are refused.
    package init(_ path: String, maximumBytes: Int) throws(CommandFailure) {
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
    package func chunks<Value>(
        of size: Int, decode: ([UInt8]) throws(ModelError) -> Value, complain: (String) -> Void,
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
            do throws(ModelError) {
                guard line.count <= maximumBytes else {
                    throw ModelError(message: "longer than \(maximumBytes) bytes")
                }
                if line.allSatisfy({ $0 == 0x20 || $0 == 0x09 }) { return }
                pending.append((number, try decode(line)))
            } catch {
                refused += 1
                complain("line \(number): \(error)")
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
            throw CommandFailure(.failure, "\(name) cannot be read: \(CommandFailure.reason(error))")
        }
    }
}

/// Checks that the apps and kinds that events name are registered, and that widgets may be placed, so that events do
/// not become dead letters.
extension KindDirectory {
    /// Reads the directory for checks; nil for none, without a configured database or with `--no-check`.
    package static func load(_ settings: Settings, noCheck: Bool) async throws -> KindDirectory? {
        guard !noCheck, settings.postgres.url != nil else { return nil }
        return try await settings.withPool { pool in
            try await pool.requireMigrations()
            return try await DirectoryCache(pool: pool).refresh()
        }
    }

    package func requiredApp(_ name: String) throws(ModelError) -> RegisteredApp {
        guard let app = apps[name], Text.equal(app.name, name) else {
            let hint = name.hint(among: apps.keys.sorted())
            throw ModelError(message: "no app \(Text.quoted(name)) is registered\(hint)", pointer: "/app")
        }
        return app
    }

    package func requiredKind(
        _ name: String, of app: RegisteredApp, pointer: String = "/kind"
    ) throws(ModelError) -> RegisteredKind {
        guard let kind = kind(name, of: app), Text.equal(kind.definition.name, name) else {
            if let kind = unreadableKind(name, of: app) { throw ModelError(message: kind.message, pointer: pointer) }
            let hint = name.hint(among: kinds(of: app).keys.sorted())
            throw ModelError(
                message: "app \(Text.quoted(app.name)) has no kind \(Text.quoted(name))\(hint)", pointer: pointer)
        }
        return kind
    }

    /// The errors of an event, with their places in its data.
    ///
    /// - Parameter stored: configuration of the widget that is placed again; see
    ///   ``KindDefinition/problems(with:replacing:)``.
    package func problems(
        with event: FreshetEvent, replacing stored: WidgetConfiguration = .empty
    ) -> [ModelError] {
        do throws(ModelError) {
            let app = try requiredApp(event.app)
            switch event.change {
            case .reload(let request):
                guard case .kinds(let names) = request.kinds else { return [] }
                // A reload needs no definition.
                for name in names where unreadableKind(name, of: app) == nil {
                    _ = try requiredKind(name, of: app, pointer: "/kinds")
                }
            case .widget(.placed(let placement)):
                let definition = try requiredKind(placement.kind, of: app).definition
                return definition.problems(with: definition.resolve(placement), replacing: stored)
            case .widget, .view, .device, .person, .interaction: break
            }
            return []
        } catch {
            return [error]
        }
    }
}
