import Foundation
import Hummingbird
import HummingbirdTesting
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import WidgetAPI

/// `widget-rules.md` D: the form of a configuration, used in a browser by keyboard and mouse.
@Suite("The form in Chromium", .tags(.api), .timeLimit(.patience))
struct FormBrowserTests {
    static let chromium = ["/usr/bin/chromium", "/usr/bin/google-chrome"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }

    @Test(
        "D: a person configures a widget: search, sections, dependent rows, several values, stepper, problems, save",
        .enabled(if: FormBrowserTests.chromium != nil, "Chromium is not installed"))
    func use() async throws {
        let chromium = try #require(Self.chromium)
        try await withStore { store in
            try await store.defineIntent {
                $0.accentColor = "teal"
                $0.backgroundColor = "#0b3d2e"
                // Nobody touches these: they stay as they are.
                $0.intent?.parameters += [
                    IntentParameter(name: "owner", displayName: "Owner", type: .person),
                    IntentParameter(name: "loud", displayName: "Loud", type: .boolean),
                    IntentParameter(name: "since", displayName: "Since", type: .date),
                    IntentParameter(
                        name: "nickname", displayName: "Nickname", type: .string(.none),
                        parent: .init(name: "since", value: "2026-06-22T10:00:00Z")),
                ]
            }
            let stored = """
                {"card":"acme","nickname":"Nick","owner":{"display":"Ann","identifier":"p1"},\
                "since":"2026-06-22T12:00:00+02:00"}
                """
            try await store.place([.test("w1", configuration: stored)])
            try await withAPI(store, configurations: StubConfigurations(), isLive: true) { api in
                let port = try #require(api.client.port)
                let page = "http://127.0.0.1:\(port)\(TestAPI.base)/widgets/w1/configuration/form"
                let own = FileManager.default.temporaryDirectory.appending(path: "freshet-form-\(UUID().uuidString)")
                try FileManager.default.createDirectory(at: own, withIntermediateDirectories: true)
                defer { try? FileManager.default.removeItem(at: own) }
                let folder = ProcessInfo.processInfo.environment["FRESHET_TEST_SCREENSHOTS"] ?? own.path
                let output = try await Self.run(
                    ["python3", Self.script, chromium, page, api.token, folder])
                #expect(output.status == 0, "\(output.text)")
                let event = try #require(try api.published.events().last).event
                let configuration = try WidgetConfiguration([
                    "card": ["identifier": "debit", "display": "Everyday Debit"], "category": "groceries",
                    "hidden": false, "limit": 3, "shops": [["identifier": "soup", "display": "SoupPay"]],
                    "owner": ["identifier": "p1", "display": "Ann"], "since": "2026-06-22T12:00:00+02:00",
                    "nickname": .null,
                ])
                #expect(event == .configured(app: TestKinds.app, widget: "w1", configuration: configuration))
            }
        }
    }

    private static let script = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "browser.py")
        .path()

    /// Runs a program, and returns its exit status with everything that it printed.
    private static func run(_ arguments: [String]) async throws -> (status: Int32, text: String) {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = arguments
        let file = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        defer { try? FileManager.default.removeItem(at: file) }
        _ = FileManager.default.createFile(atPath: file.path(), contents: nil)
        let handle = try FileHandle(forWritingTo: file)
        process.standardOutput = handle
        process.standardError = handle
        await withCheckedContinuation { continuation in
            process.terminationHandler = { _ in continuation.resume() }
            do { try process.run() } catch { continuation.resume() }
        }
        return (process.terminationStatus, (try? String(contentsOf: file, encoding: .utf8)) ?? "")
    }
}
