import Foundation
import KafkaClient
import TestSupport
import Testing
import WidgetModel

@testable import freshet

/// A drain through a service that somebody else has started, as `deploy/container/verify` does it with containers.
@Suite(.tags(.process), .timeLimit(.minutes(5)))
struct RunningServiceTests {
    @Test("events go through the service that runs, on its own topics, and it goes on")
    func drain() async throws {
        try await withInstallation { installation in
            let (process, _) = try await installation.run()
            let provider = try await installation.provider.port()
            let (status, out, err) = try await installation.freshet(
                "load", "drain", "--running-service", "--bootstrap-servers",
                installation.kafka.configuration.bootstrapServers, "--provider", "http://127.0.0.1:\(provider)",
                "--users", "20", "--widgets-per-user", "2", "--kinds", "2", "--events", "200", "--passes", "2", "--json"
            )
            #expect(status == 0, "\(out)\n\(err)")
            let report = try JSONValue.parse(out)
            #expect(report["lost"] == 0 && report["events"] == 200)
            #expect(report["verified"] == report["distinctTimelines"])
            #expect(process.isRunning)
            process.send(signal: SIGTERM)
            #expect(try await process.end() == FreshetProcess.Exit(status: 0, isSignal: false))
        }
    }

    @Test("a running service is used only with a provider that it can reach")
    func refusal() async throws {
        let (status, _, err) = try await FreshetProcess.run(["load", "drain", "--running-service"])
        #expect(status == 64 && err.contains("--running-service"), "\(err)")
    }
}
