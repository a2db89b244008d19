// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@Suite(.tags(.process), .timeLimit(.patience))
struct DemoProcessTests {
    @Test("The demo completes on an empty database without losses, and refuses to run there again")
    func demo() async throws {
        try await withDatabase { database in
            let environment = FreshetProcess.patientDelivery.merging([
                "FRESHET_POSTGRES_URL": database.connectionString
            ]) { $1 }
            let process = try FreshetProcess(
                ["demo", "--seconds", "3", "--widgets", "300", "--rate", "50"], environment: environment)
            let exit = try await process.end()
            let (out, err) = (process.standardOutput, process.standardError)
            #expect(exit == FreshetProcess.Exit(status: 0, isSignal: false), "\(out.suffix(2_000))\n\(err)")
            #expect(out.split(separator: "\n").contains("  lost: 0"), "\(out.suffix(2_000))")
            let words = out.split(whereSeparator: \.isWhitespace).joined(separator: " ")
            #expect(!words.contains(" 0 requests of the rangers failed") && words.contains("of the rangers failed"))
            // 60 people with 5 widgets each; weather widgets are shared by the people of 40 cities.
            #expect(out.contains("300 / 280 "), "\(out.suffix(2_000))")

            let again = try await FreshetProcess.run(["demo", "--seconds", "1"], environment: environment)
            #expect(again.status == 1)
            #expect(again.err.contains("the database holds timelines already"))
        }
    }
}
