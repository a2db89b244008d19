// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import FreshetService
import JSON
import WidgetAPI
import WidgetModel
import WidgetStore

struct AppsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "apps",
        abstract: "Lists the registered apps and replaces their signing secrets.",
        subcommands: [List.self, RotateSecret.self, EndRotation.self])

    struct List: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Lists apps and whether their secrets are being replaced.",
            discussion: """
                Secrets are not shown.

                Examples:
                  freshet apps list
                  freshet apps list --app com.example.bank --json
                """)

        @Option(help: "Only this app.", transform: OptionText.identifier)
        var app: String?

        @OptionGroup var output: OutputOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            if let app { try await store.requireApp(app) }
            let apps = try await store.query(.readSecrets(app: app))
            output.print(
                apps.map(\.json),
                columns: [
                    "APP": "app", "DEVELOPER MODE": "developerMode",
                    "PREVIOUS SECRET VALID UNTIL": "previousSecretExpiresAt",
                ])
        }
    }

    struct RotateSecret: AppCommand {
        static let configuration = CommandConfiguration(
            abstract: "Gives an app a new signing secret. The present one stays valid for a while.",
            discussion: """
                Meanwhile requests to the app's provider carry two signatures, the new secret's first. \
                `freshet apps end-rotation` ends the rotation early.

                A generated secret is printed only once. Change the manifest's signingSecret too, or the next \
                `freshet kinds apply` restores the old one. While a rotation is under way, another one is refused, since \
                the provider may still use the previous secret.

                Examples:
                  freshet apps rotate-secret --app com.example.bank --generate
                  freshet apps rotate-secret --app com.example.bank --secret-file bank.secret --keep-old 7d
                """)

        @Option(help: ArgumentHelp("A file with the new secret: \(SigningSecret.form).", valueName: "file"))
        var secretFile: String?

        @Flag(help: "Make a random secret and print it.")
        var generate = false

        @Option(
            help: "Time for which the present secret stays valid, such as 24h; 0s for none.",
            transform: OptionText.duration)
        var keepOld = WidgetStore.secretOverlap

        @OptionGroup var options: AppOptions

        func validate() throws {
            guard (secretFile != nil) != generate else {
                throw ValidationError("give either --secret-file or --generate")
            }
            guard keepOld <= .seconds(366 * 86_400) else { throw ValidationError("--keep-old: expected at most 366d") }
        }

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            let secret = try newSecret()
            guard let rotation = try await store.rotateSecret(app: app, to: secret.bytes, keepingOld: keepOld)
            else { throw WidgetStore.notRegistered(app) }
            report(rotation, secret)
        }

        private func newSecret() throws -> SigningSecret {
            try secretFile.map { try SigningSecret(file: $0) } ?? .random()
        }

        private func report(_ rotation: WidgetStore.SecretRotation, _ secret: SigningSecret) {
            if output.json {
                Terminal.print(rotation.json(telling: generate ? secret : nil))
                return
            }
            guard rotation.isChanged else {
                Terminal.print("\(app) has this secret already")
                return
            }
            if generate { Terminal.print(secret.exposed) }
            Terminal.complain(
                rotation.secrets.previousExpiresAt.map {
                    "requests of \(app) are signed with the new secret and, until \($0.rfc3339), with the one before"
                } ?? "requests of \(app) are signed with the new secret only")
        }
    }

    struct EndRotation: AppCommand {
        static let configuration = CommandConfiguration(
            abstract: "Ends the validity of an app's previous signing secret at once.",
            discussion: """
                Example:
                  freshet apps end-rotation --app com.example.bank
                """)

        @OptionGroup var options: AppOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            let isEnded = try await store.endSecretRotation(app: app)
            output.print(
                ["app": .string(app), "ended": .bool(isEnded)],
                or: isEnded ? "\(app)'s previous secret is not valid any more" : "\(app) has no previous secret")
        }
    }
}
