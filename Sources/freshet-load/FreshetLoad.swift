// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import FreshetService
import JSON

/// The load tool.
@main
struct FreshetLoad: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "freshet-load",
        abstract: "Loads Freshet with synthetic events and measures what they cost.",
        discussion: """
            Runs are seeded and reproducible. The embedded Kafka broker, the sample provider and the service are \
            processes of the program freshet, which is expected in the same folder.

            Examples:
              deploy/local/postgres run -- freshet-load drain
              freshet-load latency --rate 1000 --duration 30 --report latency.html
              freshet-load events --count 10000 | freshet publish --stdin

            Exit status: 0 done; 1 failed, or something was lost; 64 the command line is wrong; 69 Kafka or \
            PostgreSQL cannot be reached; 78 the settings are wrong.
            """,
        version: FreshetNode.version,
        subcommands: [
            LoadDrain.self, LoadLatency.self, LoadGlobal.self, LoadFairness.self,
            LoadIngest.self, LoadSoak.self, LoadEvents.self, LoadFill.self,
            LoadStacks.self, LoadDelivery.self,
        ])

    static func main() async {
        await Program.main(FreshetLoad.self)
    }
}
