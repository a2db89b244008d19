// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing
import WidgetModel

@Suite(.tags(.process), .serialized, .timeLimit(.patience))
struct LoadFillTests {
    private func load(
        _ arguments: [String], status: Int32 = 0, twice: Bool = false
    ) async throws -> (out: String, err: String) {
        try await withDatabase { database in
            let environment = ["FRESHET_POSTGRES_URL": database.connectionString]
            var answer: (out: String, err: String) = ("", "")
            for isLast in twice ? [false, true] : [true] {
                let process = try FreshetProcess(
                    arguments + ["--json"], program: "freshet-load", environment: environment)
                let exit = try await process.end()
                answer = (process.standardOutput, process.standardError)
                #expect(exit == FreshetProcess.Exit(status: isLast ? status : 0, isSignal: false), "\(answer.err)")
                guard isLast, status == 0 else { continue }
                let report = try JSONValue.parse(answer.out)
                #expect(SchemaCheck.problems(of: report, by: try SchemaCheck.schema("load-report.json")) == [])
            }
            return answer
        }
    }

    @Test("`fill` creates the requested timelines, and refuses a database that contains some")
    func fill() async throws {
        let report = try JSONValue.parse(try await load(["fill", "--timelines", "2500", "--content-bytes", "100"]).out)
        #expect(report["timelines"]?.numberValue?.int64 == 2_500 && report["widgets"]?.numberValue?.int64 == 2_500)
        let refusal = try await load(["fill", "--timelines", "10"], status: 1, twice: true)
        #expect(refusal.err.contains("holds timelines already"))
    }
}
