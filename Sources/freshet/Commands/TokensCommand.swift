// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import FreshetService
import JSON
import WidgetAPI
import WidgetModel

struct TokensCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tokens",
        abstract: "Makes tokens and keys for the HTTP API, for development, and shows the claims of tokens.",
        discussion: """
            In production an identity provider issues tokens, and api.keys names the JWKS file with its public keys.
            """,
        subcommands: [Issue.self, Show.self, Keys.self])

    /// The settings, and the keys of a JWKS file as the API reads them.
    private static func load(
        _ path: String?, _ settings: SettingsOptions
    ) async throws -> (keys: TokenKeyStore, settings: Settings) {
        let values = try settings.load().settings
        guard let path = path ?? values.api.keys else {
            throw CommandFailure(
                .configuration, "no keys: give --keys, or set api.keys; `freshet tokens keys` makes some")
        }
        let keys = TokenKeyStore(logger: .ofCommands) { try await TokenKeys.read(path) }
        try await keys.load(from: path)
        return (keys, values)
    }

    struct Issue: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Issues a token, signed with a private key or a secret of the JWKS file.",
            discussion: """
                Prints the token, or with --json an object with the token and its validity. Its audience and issuer are \
                api.audience and api.issuer, if they are set.

                Scopes: \(TokenScope.allCases.map(\.rawValue).joined(separator: ", ")).

                Examples:
                  freshet tokens issue --keys keys.json --app com.example.bank --scope widgets:read --scope reload
                  freshet tokens issue --keys keys.json --app com.example.bank --user u42 --for 30d \
                --scope widgets:read --scope widgets:write
                """)

        @Option(help: "Bundle identifier of the app that the token is for.", transform: OptionText.identifier)
        var app: String

        @Option(help: "User that a device token is for; the whole app by default.", transform: OptionText.identifier)
        var user: String?

        @Option(
            name: .customLong("scope"), parsing: .singleValue,
            help: "Permission of the token; can be given several times.")
        var scopes: [TokenScope] = []

        @Option(name: .customLong("for"), help: "Validity: 90s, 15m, 1h, 30d.", transform: OptionText.duration)
        var lifetime = Duration.seconds(3_600)

        @Option(help: "Subject (sub), for the audit log.")
        var subject: String?

        @Flag(help: "Print JSON.")
        var json = false

        @Option(name: .customLong("key"), help: "Id of the key to sign with; the first that can sign by default.")
        var key: String?

        @Option(help: ArgumentHelp("JWKS file with the keys; api.keys by default.", valueName: "file"))
        var keys: String?

        @OptionGroup var settings: SettingsOptions

        func validate() throws {
            guard !scopes.isEmpty else {
                let names = TokenScope.allCases.map(\.rawValue).joined(separator: ", ")
                throw ValidationError("--scope: expected one or more of \(names)")
            }
        }

        func run() async throws {
            let (store, values) = try await TokensCommand.load(keys, settings)
            let now = Timestamp.now()
            let end = now + lifetime
            do throws(ModelError) {
                let token = try await store.current().keys.issue(
                    app: app, user: user, scopes: scopes, subject: subject, issuer: values.api.rules.issuer,
                    audience: values.api.rules.audience, expiresAt: end, keyID: key, now: now)
                guard json else { return Terminal.print(token) }
                Terminal.print(["token": .string(token), "expiresAt": .time(end)])
            } catch {
                throw CommandFailure(.failure, error.description)
            }
        }
    }

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Verifies the token on standard input as the API does, and shows its claims.",
            discussion: """
                The exit status is 1 if the API would refuse the token.

                Example:
                  freshet tokens issue --keys keys.json --app com.example.bank --scope reload \
                | freshet tokens show --keys keys.json
                """)

        @Flag(help: "Print JSON, which is the default.")
        var json = false

        @Option(help: ArgumentHelp("JWKS file with the keys; api.keys by default.", valueName: "file"))
        var keys: String?

        @OptionGroup var settings: SettingsOptions

        func run() async throws {
            let (store, values) = try await TokensCommand.load(keys, settings)
            let line = readLine(strippingNewline: true) ?? ""
            do throws(TokenRefusal) {
                let verifier = TokenVerifier(keys: store, rules: values.api.rules)
                Terminal.print(try await verifier.principal(token: Array(line.utf8)).json)
            } catch {
                throw CommandFailure(.failure, error.rawValue)
            }
        }
    }

    struct Keys: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Makes a JWKS file with a new private key, or prints the public keys of one.",
            discussion: """
                A new file is readable by its owner only, and never replaces another file. HS256 keys are secrets that can \
                both verify and issue tokens; ES256 and EdDSA keys have a public part, which --public prints.

                Examples:
                  freshet tokens keys --output keys.json
                  freshet tokens keys --algorithm ES256 --id 2026-01 --output keys.json
                  freshet tokens keys --public keys.json
                """)

        @Flag(help: "Print JSON, which is the default; with --output the file and the key's id.")
        var json = false

        @Option(help: "HS256, ES256 or EdDSA.")
        var algorithm = TokenAlgorithm.eddsa

        @Option(help: "Id of the key.")
        var id = "dev"

        @Option(help: ArgumentHelp("File to create; standard output by default.", valueName: "file"))
        var output: String?

        @Option(
            name: .customLong("public"), help: ArgumentHelp("Print the public keys of this file.", valueName: "file"))
        var publicKeysOf: String?

        func validate() throws {
            guard (1...256).contains(id.utf8.count), id.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
                throw ValidationError("--id: expected 1 to 256 bytes of printable ASCII without spaces")
            }
        }

        func run() async throws {
            if let publicKeysOf {
                let text = try String(file: publicKeysOf, maximumBytes: TokenKeys.maximumBytes)
                do throws(JSONError) {
                    Terminal.print(TokenKeys.publicKeys(try JSONValue.parse(text)))
                } catch {
                    throw CommandFailure(.failure, "\(publicKeysOf): not JSON: \(error.message)")
                }
                return
            }
            let key = TokenKeys.makeKey(algorithm, id: id)
            let text = JSONValue.object(["keys": .array([key])]).pretty + "\n"
            guard let output else {
                Terminal.print(String(text.dropLast()))
                return
            }
            // Never replaces a file, whose keys may be in use.
            let descriptor = open(output, O_WRONLY | O_CREAT | O_EXCL, 0o600)
            guard descriptor >= 0 else {
                throw CommandFailure(.failure, "cannot create \(output): \(String(cString: strerror(errno)))")
            }
            try FileHandle(fileDescriptor: descriptor, closeOnDealloc: true).write(contentsOf: Data(text.utf8))
            guard !json else {
                return Terminal.print([
                    "file": .string(output), "id": .string(id), "algorithm": .string(algorithm.rawValue),
                ])
            }
            Terminal.complain("created \(output) with the key \(id), \(algorithm.rawValue)")
        }
    }
}

extension TokenScope: ExpressibleByArgument {}

extension TokenAlgorithm: ExpressibleByArgument {}

extension Principal {
    fileprivate var json: JSONValue {
        [
            "app": .string(app), "user": .text(user), "scopes": .texts(scopes.map(\.rawValue).sorted()),
            "subject": .text(subject), "id": .text(tokenID), "notBefore": .time(notBefore),
            "expiresAt": .time(expiresAt),
        ]
    }
}
