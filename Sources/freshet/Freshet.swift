// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import FreshetService
import ProviderTools

@main
struct Freshet: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "freshet",
        abstract: "Keeps home-screen widgets fresh.",
        discussion: """
            Services publish push notifications and app changes to Kafka. Freshet decides which widgets' timelines \
            those make stale, keeps that state in PostgreSQL, and regenerates the stale timelines with batched \
            requests to the apps' timeline providers.

            Settings come from a file (--config), from the environment (FRESHET_…), and from --set key=value, each \
            over the one before; `freshet config keys` lists them.

            Examples:
              freshet migrate --set postgres.url=postgresql:///freshet
              freshet kinds apply bank.yaml
              freshet run --role all --config freshet.yaml
              freshet publish push --app com.example.bank --user u42 --kind RecentPurchases

            Exit status: 0 done; 1 failed, or done only in part; 64 the command line is wrong; 69 Kafka or \
            PostgreSQL cannot be reached; 78 the settings are wrong, or migrations are missing.
            """,
        version: FreshetNode.version,
        groupedSubcommands: [
            CommandGroup(
                name: "Start",
                subcommands: [
                    DemoCommand.self, InitCommand.self, RunCommand.self, MigrateCommand.self, TopicsCommand.self,
                    KafkaCommand.self, ConfigCommand.self, DoctorCommand.self, HealthCommand.self, CapacityCommand.self,
                ]),
            CommandGroup(
                name: "Provider development",
                subcommands: [
                    LintCommand.self, PreviewCommand.self, SimulateCommand.self, ProviderCommand.self,
                ]),
            CommandGroup(
                name: "App",
                subcommands: [
                    KindsCommand.self, AppsCommand.self, TokensCommand.self, OptionsCommand.self,
                    PlaceholdersCommand.self,
                ]),
            CommandGroup(name: "Event", subcommands: [PublishCommand.self, ReloadCommand.self]),
            CommandGroup(
                name: "Widget",
                subcommands: [
                    ExplainCommand.self, WidgetsCommand.self, TimelinesCommand.self, RelevanceCommand.self,
                    UsersCommand.self, DevicesCommand.self,
                ]),
            CommandGroup(
                name: "Operation",
                subcommands: [
                    WorkCommand.self, ForecastCommand.self, PauseCommand.self, ResumeCommand.self, CancelCommand.self,
                    DeadLettersCommand.self, IngestCommand.self, PositionsCommand.self,
                ]),
        ])

    static func main() async {
        await Program.main(Freshet.self)
    }
}
