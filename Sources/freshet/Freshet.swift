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
        subcommands: [
            RunCommand.self, HealthCommand.self, MigrateCommand.self, KindsCommand.self, PublishCommand.self,
            WidgetsCommand.self,
            TimelinesCommand.self, RelevanceCommand.self, ExplainCommand.self, ForecastCommand.self,
            PlaceholdersCommand.self,
            UsersCommand.self, DevicesCommand.self, DeadLettersCommand.self, IngestCommand.self, PositionsCommand.self,
            WorkCommand.self,
            ConfigCommand.self,
            KafkaCommand.self, TopicsCommand.self, DoctorCommand.self, ProviderCommand.self, TokensCommand.self,
            DemoCommand.self, AppsCommand.self,
            CapacityCommand.self, SimulateCommand.self,
            LintCommand.self, PreviewCommand.self, OptionsCommand.self, ReloadCommand.self, PauseCommand.self,
            ResumeCommand.self,
            CancelCommand.self,
        ])

    static func main() async {
        await Program.main(Freshet.self)
    }
}
