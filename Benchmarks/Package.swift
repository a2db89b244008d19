// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0

import PackageDescription

/// The settings of the parent's targets; `-enable-testing` because the cases also use what is internal to them. It
/// keeps internal symbols, and changes no allocation.
let strict: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .treatAllWarnings(as: .error),
    .unsafeFlags(["-enable-testing"]),
]
let strictWithC: [SwiftSetting] = strict + [.strictMemorySafety()]

let logging: Target.Dependency = .product(name: "Logging", package: "swift-log")
let crypto: Target.Dependency = .product(name: "Crypto", package: "swift-crypto")
let lifecycle: Target.Dependency = .product(name: "ServiceLifecycle", package: "swift-service-lifecycle")
let metrics: Target.Dependency = .product(name: "Metrics", package: "swift-metrics")
let tracing: Target.Dependency = .product(name: "Tracing", package: "swift-distributed-tracing")

// The measured code is the parent's, through the links in Freshet/: its targets are of `package` access and no
// products, so that a package that depends on the parent could neither link nor call them.
let package = Package(
    name: "freshet-benchmarks",
    platforms: [.macOS(.v15)],
    dependencies: [
        // Without traits: its malloc hook has no counterpart for every toolchain, and then counts 0. CAllocations
        // counts.
        .package(url: "https://github.com/ordo-one/benchmark", from: "1.38.1", traits: []),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.100.0"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.30.0"),
        .package(url: "https://github.com/apple/swift-crypto", "3.12.3"..<"5.0.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.0"),
    ],
    targets: [
        .executableTarget(
            name: "FreshetBenchmarks",
            dependencies: ["Cases", "CAllocations", .product(name: "Benchmark", package: "benchmark")],
            path: "Benchmarks/FreshetBenchmarks", swiftSettings: [.swiftLanguageMode(.v6)],
            plugins: [.plugin(name: "BenchmarkPlugin", package: "benchmark")]),
        .executableTarget(name: "count", dependencies: ["Cases", "CAllocations"], swiftSettings: strict),
        .executableTarget(
            name: "statements", dependencies: ["PostgresClient", "JSON", "WidgetModel", "WidgetStore", logging],
            swiftSettings: strict),
        .executableTarget(
            name: "audit", dependencies: ["PostgresClient", "JSON", "WidgetModel", "WidgetStore", logging],
            swiftSettings: strict),
        .executableTarget(
            name: "habits", dependencies: ["JSON", "Randomness", "WidgetModel", "WidgetSimulator"],
            swiftSettings: strict),
        .target(name: "CAllocations"),
        .target(
            name: "Cases",
            dependencies: [
                "CLibpq", "CRdKafka", "KafkaClient", "PostgresClient", "JSON", "WidgetModel", "WidgetEvents",
                "WidgetStore", "ReloadIngest", "ReloadWorkers", logging,
            ],
            swiftSettings: strict),

        .systemLibrary(
            name: "CRdKafka", path: "Freshet/CRdKafka", pkgConfig: "rdkafka",
            providers: [.apt(["librdkafka-dev"]), .brew(["librdkafka"])]),
        .systemLibrary(
            name: "CLibpq", path: "Freshet/CLibpq", pkgConfig: "libpq",
            providers: [.apt(["libpq-dev"]), .brew(["libpq"])]),
        .target(
            name: "KafkaClient", dependencies: ["CRdKafka", "Waiting", logging], path: "Freshet/KafkaClient",
            swiftSettings: strictWithC),
        .target(
            name: "PostgresClient", dependencies: ["CLibpq", "Waiting", logging, crypto],
            path: "Freshet/PostgresClient",
            swiftSettings: strictWithC),
        .target(name: "Waiting", path: "Freshet/Waiting", swiftSettings: strictWithC),
        .target(name: "JSON", path: "Freshet/JSON", swiftSettings: strictWithC),
        .target(
            name: "WidgetModel", dependencies: ["JSON", "Waiting", crypto, metrics], path: "Freshet/WidgetModel",
            resources: [.embedInCode("Values/TimeZones.txt")], swiftSettings: strict),
        .target(
            name: "WidgetEvents", dependencies: ["JSON", "WidgetModel"], path: "Freshet/WidgetEvents",
            swiftSettings: strict),
        .target(name: "Randomness", path: "Freshet/Randomness", swiftSettings: strict),
        .target(
            name: "Charts", dependencies: ["WidgetModel"], path: "Freshet/Charts",
            resources: [.embedInCode("chart.css")], swiftSettings: strict),
        .target(
            name: "WidgetSimulator",
            dependencies: ["Charts", "JSON", "Randomness", "Waiting", "WidgetEvents", "WidgetModel"],
            path: "Freshet/WidgetSimulator", swiftSettings: strict),
        .target(
            name: "WidgetStore", dependencies: ["PostgresClient", "JSON", "Waiting", "WidgetModel", logging],
            path: "Freshet/WidgetStore",
            resources: [.embedInCode("Migrations")], swiftSettings: strict),
        .target(
            name: "ReloadIngest",
            dependencies: [
                "KafkaClient", "PostgresClient", "WidgetEvents", "JSON", "Waiting", "WidgetModel", "WidgetStore",
                logging,
                lifecycle,
                metrics,
            ],
            path: "Freshet/ReloadIngest", swiftSettings: strict),
        .target(
            name: "ReloadWorkers",
            dependencies: [
                "KafkaClient", "PostgresClient", "WidgetEvents", "JSON", "Waiting", "WidgetModel", "WidgetStore",
                logging,
                lifecycle,
                crypto, metrics, tracing,
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "NIOCore", package: "swift-nio"), .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"), .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ],
            path: "Freshet/ReloadWorkers", swiftSettings: strictWithC),
    ]
)
