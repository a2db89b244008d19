// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import KafkaClient

@Suite("The heap has an arena for each processor unless the environment sets the number")
struct HeapArenasTests {
    @Test(
        "There is one arena per processor, from two to eight",
        arguments: [(1, 2), (2, 2), (5, 5), (8, 8), (64, 8)])
    func processors(_ processors: Int, _ expected: Int) {
        #expect(heapArenas(processors: processors, environment: ["PATH": "/bin"]) == expected)
    }

    @Test(
        "A number in the environment is not changed",
        arguments: [
            ["MALLOC_ARENA_MAX": "1"], ["GLIBC_TUNABLES": "glibc.malloc.check=1:glibc.malloc.arena_max=3"],
        ])
    func chosen(_ environment: [String: String]) {
        #expect(heapArenas(processors: 4, environment: environment) == nil)
    }

    @Test("Other tunables do not count")
    func others() {
        #expect(
            heapArenas(processors: 4, environment: ["GLIBC_TUNABLES": "glibc.malloc.check=1"]) == 4)
    }
}
