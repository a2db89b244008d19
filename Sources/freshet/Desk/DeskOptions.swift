import ArgumentParser
import Foundation
import FreshetService
import SampleProvider
import WidgetModel
import WidgetRepresentation

/// A provider under development, with its kinds.
struct DeskOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "URL of the provider; of all kinds of the manifest if there is one. Without a manifest, neither options nor defaults are requested.",
            valueName: "url"))
    var provider: String?

    @Option(help: ArgumentHelp("Manifest with the kinds.", valueName: "file"), completion: .file())
    var manifest: String?

    @Flag(help: "Run the sample provider in this process, with its kinds.")
    var sample = false

    @Option(help: "A kind; can be given several times. All kinds of the manifest by default.")
    var kind: [String] = []

    @Option(
        help: ArgumentHelp("File with the signing secret; the manifest's by default.", valueName: "file"),
        completion: .file())
    var secretFile: String?

    @Option(
        help: """
            A person for whom the provider answers; can be given several times. By default the made-up \
            freshet-lint-1 to freshet-lint-3.
            """,
        transform: OptionText.identifier)
    var user: [String] = []

    @OptionGroup var settings: SettingsOptions

    func validate() throws {
        guard sample || provider != nil || manifest != nil else {
            throw ValidationError("give --provider with --kind, --manifest or --sample")
        }
        if sample, provider != nil || manifest != nil || secretFile != nil {
            throw ValidationError("--sample has its own provider, kinds and secret")
        }
        if provider != nil, manifest == nil, kind.isEmpty {
            throw ValidationError("--provider needs a --kind or a --manifest: a provider cannot list its kinds")
        }
        if let provider {
            do throws(ModelError) {
                _ = try ProviderURL(provider)
            } catch {
                throw ValidationError("--provider: \(error.message)")
            }
        }
    }

    var users: [String] { user.isEmpty ? ["freshet-lint-1", "freshet-lint-2", "freshet-lint-3"] : user }
}

/// A kind whose provider is asked.
struct DeskKind: Sendable {
    let app: String
    var definition: KindDefinition
    /// The newest first; empty if none is known, so that requests have no valid signature.
    let secrets: [[UInt8]]
    /// Whether the kind comes from a manifest. Without one, its parameters are unknown.
    var isDeclared = true

    var name: String { "\(app)/\(definition.name)" }
}

extension DeskOptions {
    /// Name of the app of kinds that are given without a manifest.
    private static let unnamedApp = "provider"

    /// Kinds of the options.
    ///
    /// - Parameter samplePort: port of the sample provider in this process.
    /// - Throws: ``CommandFailure``, ``ManifestError``.
    func kinds(samplePort: Int?, sampleSecret: SigningSecret) throws -> [DeskKind] {
        var found: [DeskKind]
        if let samplePort {
            found = SampleKinds.apps(port: samplePort).flatMap { app in
                app.kinds.map { DeskKind(app: app.name, definition: $0, secrets: [sampleSecret.bytes]) }
            }
        } else if let manifest {
            let apps = try Manifest.read(path: manifest, environment: ProcessInfo.processInfo.environment).apps
            let own = try secret()
            found = apps.flatMap { app in
                app.definition.kinds.map { kind in
                    DeskKind(
                        app: app.definition.name, definition: kind,
                        secrets: (own ?? app.signingSecret).map { [$0.bytes] } ?? [])
                }
            }
        } else {
            let secrets = try secret().map { [$0.bytes] } ?? []
            return kind.map { name in
                DeskKind(
                    app: Self.unnamedApp,
                    definition: KindDefinition(name: name, providerURL: normalProvider ?? "", placeholder: nil),
                    secrets: secrets, isDeclared: false)
            }
        }
        if let url = normalProvider {
            for index in found.indices { found[index].definition.providerURL = url }
        }
        return try chosen(of: found)
    }

    private var normalProvider: String? { provider.flatMap { try? ProviderURL($0).description } }

    private func chosen(of kinds: [DeskKind]) throws(CommandFailure) -> [DeskKind] {
        let names = kinds.map(\.definition.name)
        for name in kind where !names.contains(name) {
            let meant = Suggestion.word(for: name, among: names)
            throw CommandFailure(.failure, "there is no kind \(Text.quoted(name))\(meant)")
        }
        return kind.isEmpty ? kinds : kinds.filter { kind.contains($0.definition.name) }
    }

    private func secret() throws(CommandFailure) -> SigningSecret? {
        guard let secretFile else { return nil }
        return try SigningSecret(file: secretFile)
    }
}
