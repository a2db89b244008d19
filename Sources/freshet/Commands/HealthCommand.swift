import ArgumentParser
import AsyncHTTPClient
import Foundation
import NIOCore
import WidgetModel

/// What a container's own health check runs: an image without a shell's tools has nothing else that asks.
struct HealthCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "health",
        abstract: "Asks a process on this machine whether it is well.",
        discussion: """
            Asks /health/live, or with --ready /health/ready, on health.port (without one, on api.port) of this \
            machine. The exit status is 0 when the process is well, 1 when it is not or nobody answers; what is \
            missing is told on standard error.

            Examples:
              freshet health --set health.port=8081
              freshet health --ready --url http://10.0.3.7:8081
            """)

    @Flag(help: "Also ask for everything that the process needs: PostgreSQL, migrations, Kafka, topics.")
    var ready = false

    @Option(help: "The URL to ask, without a path.")
    var url: String?

    @Option(help: "Longest wait for the answer.")
    var timeout = "5s"

    @OptionGroup var settings: SettingsOptions

    func validate() throws {
        guard DurationText.parse(timeout) != nil else {
            throw ValidationError("--timeout \(timeout): expected \(DurationText.form)")
        }
    }

    func run() async throws {
        let base = try url ?? Self.address(in: settings.load().settings)
        let place = base + (ready ? "/health/ready" : "/health/live")
        let limit = DurationText.parse(timeout) ?? .seconds(5)
        let answer: JSONValue
        do {
            let response = try await HTTPClient.shared.execute(
                HTTPClientRequest(url: place), timeout: TimeAmount(limit))
            let body = try await response.body.collect(upTo: 1 << 20)
            answer = (try? JSONValue.parse(Array(body.readableBytesView))) ?? .null
        } catch {
            throw CommandFailure(.failure, "\(place) does not answer: \(error)")
        }
        // It says the same as the status of the answer.
        guard answer["status"] == .string(ready ? "ready" : "live") else {
            throw CommandFailure(.failure, Self.trouble(answer))
        }
        Terminal.print(ready ? "ready" : "live")
    }

    /// Where a process with these settings answers on its own machine.
    static func address(in settings: Settings) throws(CommandFailure) -> String {
        let (host, port) =
            settings.health.port.map { (settings.health.host, $0) } ?? (settings.api.host, settings.api.port)
        guard port != 0 else {
            throw CommandFailure(.configuration, "the port is left to the system: name it, with --url or health.port")
        }
        // An address that means all of the machine's own is none to connect to.
        let reached =
            switch host {
            case "0.0.0.0", "": "127.0.0.1"
            case "::": "[::1]"
            default: host.contains(":") ? "[\(host)]" : host
            }
        return "http://\(reached):\(port)"
    }

    /// What a process that is not well says of itself, a line each.
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
