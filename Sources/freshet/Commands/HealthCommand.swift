// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import AsyncHTTPClient
import Foundation
import FreshetService
import JSON
import NIOCore
import WidgetAPI
import WidgetModel

/// The health check of containers, whose image has no other tools.
struct HealthCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "health",
        abstract: "Checks the health of a process on this machine.",
        discussion: """
            Requests /health/live, or /health/ready with --ready, on health.port of this machine, or on api.port without \
            one. The exit status is 0 if the process is healthy, and 1 otherwise, with the reasons on standard error.

            Examples:
              freshet health --set health.port=8081
              freshet health --ready --url http://10.0.3.7:8081
            """)

    @Flag(help: "Also check the dependencies of the process: PostgreSQL, migrations, Kafka, topics.")
    var ready = false

    @Option(help: "URL of the process, without a path.")
    var url: String?

    @Option(help: "Longest wait for the answer.", transform: OptionText.duration)
    var timeout = Duration.seconds(5)

    @OptionGroup var output: OutputOptions

    func run() async throws {
        let base = try url ?? Self.address(in: output.settings.load().settings)
        let place = base + (ready ? "/health/ready" : "/health/live")
        let answer: JSONValue
        do {
            let response = try await HTTPClient.shared.execute(
                HTTPClientRequest(url: place), timeout: TimeAmount(timeout))
            let body = try await response.body.collect(upTo: 1 << 20)
            answer = (try? JSONValue.parse(Array(body.readableBytesView))) ?? .null
        } catch {
            throw CommandFailure(.failure, "\(place) does not answer: \(error)")
        }
        if output.json { Terminal.print(answer) }
        guard answer["status"] == .string(ready ? "ready" : "live") else {
            throw CommandFailure(.failure, Self.trouble(answer))
        }
        if !output.json { Terminal.print(ready ? "ready" : "live") }
    }

    /// Local URL of a process with these settings.
    static func address(in settings: Settings) throws(CommandFailure) -> String {
        let (host, port) =
            settings.healthPort.map { (settings.healthHost, $0) } ?? (settings.api.host, settings.api.port)
        guard port != 0 else {
            throw CommandFailure(.configuration, "the system chooses the port: set --url or health.port")
        }
        // A wildcard address cannot be connected to.
        let reached =
            switch host {
            case "0.0.0.0", "": "127.0.0.1"
            // Of IPv4, too, which alone has a loopback address in some containers.
            case "::": "localhost"
            default: host.contains(":") ? "[\(host)]" : host
            }
        return "http://\(reached):\(port)"
    }

    /// Reasons why the process is not healthy, one per line.
    static func trouble(_ answer: JSONValue) -> String {
        if case .array(let missing)? = answer["missing"] {
            let lines = missing.compactMap { item -> String? in
                guard let name = item["name"]?.stringValue, let reason = item["reason"]?.stringValue else { return nil }
                return "\(name): \(reason)"
            }
            return (["not ready"] + lines).joined(separator: "\n")
        }
        if case .array(let loops)? = answer["loops"] {
            let names = loops.compactMap { $0["name"]?.stringValue }
            return "a loop does not come round: \(names.joined(separator: ", "))"
        }
        return "not well"
    }
}
