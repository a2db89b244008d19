// SPDX-License-Identifier: Apache-2.0

import Foundation
import PostgresClient
import TestSupport
import Testing
import WidgetStore

#if canImport(Glibc)
import Glibc
#else
import Darwin
#endif

/// Tests of the chaos suite's own tools.
@Suite(.timeLimit(.patience))
struct HarnessTests {
    private static let patience = Int32(clamping: Patience.limit.components.seconds * 1_000)

    private func schedule(seed: UInt64, minutes: Int, embedded: Bool = true) -> FaultSchedule {
        FaultSchedule(
            seed: seed, duration: .seconds(60 * minutes), interval: .milliseconds(3_500),
            members: ["ingest-1", "ingest-2", "workers-1", "workers-2"], apps: ["a", "b"],
            hasEmbeddedBrokers: embedded)
    }

    private func text(_ schedule: FaultSchedule) -> [String] {
        schedule.faults.map { "\($0.start) \($0.description)" }
    }

    @Test("A seed determines the schedule, which a longer run continues")
    func seeds() {
        let faults = text(schedule(seed: 7, minutes: 10))
        #expect(faults == text(schedule(seed: 7, minutes: 10)))
        let shorter = text(schedule(seed: 7, minutes: 2))
        #expect(Array(faults.prefix(shorter.count)) == shorter)
        #expect(faults != text(schedule(seed: 8, minutes: 10)))
    }

    @Test("Ten minutes contain well over a hundred faults, of every kind", arguments: [UInt64(1), 2, 3])
    func sorts(seed: UInt64) {
        let faults = schedule(seed: seed, minutes: 10).faults
        #expect(faults.count >= 120)
        let sorts = Set(faults.map(\.name))
        #expect(sorts.isSuperset(of: ["SIGKILL", "SIGSTOP, SIGCONT", "PostgreSQL crash", "ingest joins and leaves"]))
        #expect(Set((1...3).flatMap { schedule(seed: $0, minutes: 10).faults.map(\.name) }).count >= 24)
    }

    @Test("A real Kafka is not stopped")
    func realBrokers() {
        let names = schedule(seed: 1, minutes: 30, embedded: false).faults.map(\.name)
        #expect(!names.contains { $0.contains("broker") || $0.contains("request errors") })
    }

    @Test("Every rewrite of a mutation matches the text of a statement")
    func rewrites() {
        let worker: UInt128 = 0
        let texts = [
            Statements.storeTimelines([]).sql, Statements.replaceContent([]).sql,
            Statements.endLists([], worker: worker).sql,
            Statements.recordDeliveries([], window: .zero).sql, Statements.writePeople([]).sql,
        ]
        for rewrite in Mutation.all.flatMap(\.rewrites) {
            let pattern = String(decoding: rewrite.pattern, as: UTF8.self)
            #expect(texts.contains { $0.contains(pattern) }, "\(pattern)")
        }
    }

    @Test("Texts are rewritten regardless of chunk boundaries", arguments: 1...9)
    func rewriting(chunk: Int) {
        var stream = RewrittenStream([TextRewrite("old text", "new")])
        let bytes = Array("an old text, old tex and oold text.".utf8)
        var out: [UInt8] = []
        for start in stride(from: 0, to: bytes.count, by: chunk) {
            out += stream.pass(bytes[start..<min(start + chunk, bytes.count)])
        }
        #expect(String(decoding: out, as: UTF8.self) == "an new     , old tex and onew     .")
    }

    private func withProxy(_ body: (_ proxy: FaultProxy, _ link: Client, _ echo: Echo) throws -> Void) throws {
        let echo = try Echo()
        defer { echo.stop() }
        let proxy = try FaultProxy(to: echo.port)
        defer { proxy.stop() }
        let link = try Client(proxy.port)
        #expect(link.ask("open", within: Self.patience) == "open")
        try body(proxy, link, echo)
    }

    @Test("The proxy delays once in each direction")
    func delayed() throws {
        try withProxy { proxy, link, _ in
            proxy.set(delay: .milliseconds(150))
            let begin = ContinuousClock.now
            #expect(link.ask("late", within: Self.patience) == "late")
            #expect(ContinuousClock.now - begin >= .milliseconds(300))
        }
    }

    @Test("The proxy forwards what it has held when it is opened")
    func held() throws {
        try withProxy { proxy, link, _ in
            proxy.set(.held)
            #expect(link.ask("held", within: 200) == nil)
            proxy.set(.open)
            #expect(link.answer(within: Self.patience) == "held")
        }
    }

    @Test("The proxy cuts a connection of which it has swallowed something")
    func swallowed() throws {
        try withProxy { proxy, link, echo in
            proxy.set(.swallowed)
            #expect(link.ask("lost", within: 200) == nil)
            proxy.set(.open)
            #expect(link.answer(within: Self.patience) == "")
            #expect(!echo.heard.contains("lost"))
        }
    }

    @Test("The proxy refuses connections until it is opened, and cuts them")
    func refusedAndCut() throws {
        try withProxy { proxy, _, _ in
            proxy.set(.refused)
            #expect((try? Client(proxy.port))?.ask("refused", within: Self.patience) ?? "" == "")
            proxy.set(.open)
            let other = try Client(proxy.port)
            #expect(other.ask("again", within: Self.patience) == "again")
            proxy.cut()
            #expect(other.answer(within: Self.patience) == "")
        }
    }
}

/// A server that echoes its input.
private final class Echo: Sendable {
    private let listener = Socket.make()
    private let log: Heard
    let port: UInt16

    private final class Heard: @unchecked Sendable {
        private let lock = NSLock()
        private var words: [String] = []

        func add(_ word: String) { lock.withLock { words.append(word) } }
        var all: [String] { lock.withLock { words } }
    }

    init() throws {
        guard let port = Socket.listen(listener) else { throw FaultProxy.Failure(description: "no port") }
        self.port = port
        log = Heard()
        Thread.detachNewThread { [listener, log] in
            while true {
                let client = accept(listener, nil, nil)
                guard client >= 0 else { return }
                Thread.detachNewThread {
                    var buffer = [UInt8](repeating: 0, count: 1_024)
                    while true {
                        let count = read(client, &buffer, buffer.count)
                        guard count > 0 else { break }
                        log.add(String(decoding: buffer[..<count], as: UTF8.self))
                        guard Socket.write(client, buffer[..<count]) else { break }
                    }
                    close(client)
                }
            }
        }
    }

    var heard: [String] { log.all }

    func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
        close(listener)
    }
}

private struct Client {
    private let descriptor = Socket.make()

    init(_ port: UInt16) throws {
        guard Socket.connect(descriptor, to: port) else { throw FaultProxy.Failure(description: "not connected") }
    }

    func ask(_ word: String, within milliseconds: Int32) -> String? {
        guard Socket.write(descriptor, ArraySlice(Array(word.utf8))) else { return "" }
        return answer(within: milliseconds)
    }

    /// Received bytes; nil if none arrived in time, empty if the connection has ended.
    func answer(within milliseconds: Int32) -> String? {
        var event = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        guard poll(&event, 1, milliseconds) > 0 else { return nil }
        var buffer = [UInt8](repeating: 0, count: 1_024)
        let count = read(descriptor, &buffer, buffer.count)
        return count > 0 ? String(decoding: buffer[..<count], as: UTF8.self) : ""
    }
}
