// SPDX-License-Identifier: Apache-2.0

import Crypto
import Foundation
import Hummingbird

struct Question: Decodable {
    struct Request: Decodable {
        let id: String
        let user: String
    }
    let requests: [Request]
}

struct Answer: ResponseEncodable {
    struct Entry: Encodable {
        let date: Date
        let content: [String: String]
    }
    struct Timeline: Encodable {
        let id: String
        /// Only pushes reload it.
        let policy = "never"
        let entries: [Entry]
    }
    let timelines: [Timeline]
}

/// Whether Freshet signed the body with the secret, not long ago.
func isSigned(_ headers: HTTPFields, _ body: Data, key: SymmetricKey) -> Bool {
    func header(_ name: String) -> String { headers.first { $0.name.canonicalName == name }?.value ?? "" }
    let timestamp = header("webhook-timestamp")
    guard let seconds = TimeInterval(timestamp), abs(Date.now.timeIntervalSince1970 - seconds) <= 300 else {
        return false
    }
    let signed = Data("\(header("webhook-id")).\(timestamp).".utf8) + body
    return header("webhook-signature").split(separator: " ").contains { part in
        guard part.hasPrefix("v1,"), let code = Data(base64Encoded: String(part.dropFirst(3))) else { return false }
        return HMAC<SHA256>.isValidAuthenticationCode(code, authenticating: signed, using: key)
    }
}

/// A timeline provider: answers POST /timelines with the greeting in greeting.txt, for each person.
@main
struct Provider {
    struct BadSecret: Error {}

    /// The first argument is the folder of provider.secret and greeting.txt; the working directory by default.
    static func main() async throws {
        let folder = URL(filePath: CommandLine.arguments.dropFirst().first ?? ".", directoryHint: .isDirectory)
        let secret = try String(contentsOf: folder.appending(path: "provider.secret"), encoding: .utf8)
        let encoded = secret.trimmingCharacters(in: .whitespacesAndNewlines).dropFirst("whsec_".count)
        guard let bytes = Data(base64Encoded: String(encoded)) else { throw BadSecret() }
        let key = SymmetricKey(data: bytes)
        let greeting = folder.appending(path: "greeting.txt")

        let router = Router()
        router.post("timelines") { request, _ in
            let body = Data(try await request.body.collect(upTo: 8 << 20).readableBytesView)
            guard isSigned(request.headers, body, key: key) else { throw HTTPError(.unauthorized) }
            let text = try String(contentsOf: greeting, encoding: .utf8).trimmingCharacters(in: .whitespacesAndNewlines)
            let changed = try FileManager.default.attributesOfItem(atPath: greeting.path)[.modificationDate] as? Date
            let question = try JSONDecoder().decode(Question.self, from: body)
            return Answer(
                timelines: question.requests.map { request in
                    let entry = Answer.Entry(date: changed ?? .now, content: ["text": "\(text), \(request.user)!"])
                    return Answer.Timeline(id: request.id, entries: [entry])
                })
        }
        try await Application(router: router, configuration: .init(address: .hostname("127.0.0.1", port: 8092)))
            .runService()
    }
}
