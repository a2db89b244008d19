// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0

import PackageDescription

/// Settings of every Swift target: language mode 6 (from the tools version), the upcoming features that make imports
/// and existentials explicit, and no warning left standing.
let strict: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .treatAllWarnings(as: .error),
]

/// Targets that call C also account for every unsafe expression.
let strictWithC: [SwiftSetting] = strict + [.strictMemorySafety()]

let logging: Target.Dependency = .product(name: "Logging", package: "swift-log")
let crypto: Target.Dependency = .product(name: "Crypto", package: "swift-crypto")
let lifecycle: Target.Dependency = .product(name: "ServiceLifecycle", package: "swift-service-lifecycle")
let nio: Target.Dependency = .product(name: "NIOCore", package: "swift-nio")
let tls: Target.Dependency = .product(name: "NIOSSL", package: "swift-nio-ssl")
let httpClient: Target.Dependency = .product(name: "AsyncHTTPClient", package: "async-http-client")
let hummingbird: Target.Dependency = .product(name: "Hummingbird", package: "hummingbird")
let jwt: Target.Dependency = .product(name: "JWTKit", package: "jwt-kit")
let http2: Target.Dependency = .product(name: "NIOHTTP2", package: "swift-nio-http2")
let mustache: Target.Dependency = .product(name: "Mustache", package: "swift-mustache")
let metrics: Target.Dependency = .product(name: "Metrics", package: "swift-metrics")
let tracing: Target.Dependency = .product(name: "Tracing", package: "swift-distributed-tracing")
let argumentParser: Target.Dependency = .product(name: "ArgumentParser", package: "swift-argument-parser")

let package = Package(
    name: "freshet",
    platforms: [.macOS(.v15)],
    products: [
        .library(name: "FreshetClient", targets: ["FreshetClient"]),
        .executable(name: "freshet", targets: ["freshet"]),
        .executable(name: "freshet-load", targets: ["freshet-load"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
        .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.100.0"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.30.0"),
        .package(url: "https://github.com/apple/swift-nio-extras", from: "1.35.2"),
        .package(url: "https://github.com/apple/swift-nio-http2", from: "1.38.0"),
        .package(url: "https://github.com/apple/swift-certificates", from: "1.10.0"),
        .package(url: "https://github.com/apple/swift-asn1", from: "1.3.0"),
        .package(url: "https://github.com/apple/swift-crypto", "3.12.3"..<"5.0.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.0"),
        .package(url: "https://github.com/hummingbird-project/swift-mustache", from: "2.1.1"),
        .package(url: "https://github.com/jpsim/Yams", from: "6.2.0"),
        .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", from: "0.2.0"),
        .package(url: "https://github.com/vapor/jwt-kit", from: "5.7.0"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.0"),
        .package(url: "https://github.com/swiftlang/swift-docc-plugin", from: "1.5.0"),
    ],
    targets: [
        .systemLibrary(
            name: "CRdKafka", pkgConfig: "rdkafka",
            providers: [.apt(["librdkafka-dev"]), .brew(["librdkafka"])]),
        .systemLibrary(
            name: "CLibpq", pkgConfig: "libpq",
            providers: [.apt(["libpq-dev"]), .brew(["libpq"])]),

        .target(
            name: "KafkaClient", dependencies: ["CRdKafka", "Waiting", logging], swiftSettings: strictWithC),
        .target(
            name: "PostgresClient", dependencies: ["CLibpq", "Waiting", logging, crypto], swiftSettings: strictWithC),
        .target(name: "Waiting", swiftSettings: strictWithC),
        .target(name: "JSON", swiftSettings: strictWithC),
        .target(
            name: "WidgetModel", dependencies: ["JSON", "Waiting", crypto, metrics],
            resources: [.embedInCode("Values/TimeZones.txt")],
            swiftSettings: strict),
        .target(
            name: "Charts", dependencies: ["WidgetModel"], resources: [.embedInCode("chart.css")],
            swiftSettings: strict),
        .target(
            name: "WidgetEvents", dependencies: ["JSON", "WidgetModel"], swiftSettings: strict),
        .target(
            name: "WidgetStore", dependencies: ["PostgresClient", "JSON", "Waiting", "WidgetModel", logging],
            resources: [.embedInCode("Migrations")], swiftSettings: strict),
        .target(
            name: "ReloadIngest",
            dependencies: [
                "KafkaClient", "PostgresClient", "WidgetEvents", "JSON", "Waiting", "WidgetModel", "WidgetStore",
                logging,
                lifecycle,
                metrics,
            ],
            swiftSettings: strict),
        .target(
            name: "ReloadWorkers",
            dependencies: [
                "KafkaClient", "PostgresClient", "WidgetEvents", "JSON", "Waiting", "WidgetModel", "WidgetStore",
                logging,
                lifecycle,
                httpClient, crypto, http2, nio, tls, metrics, tracing,
                .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "NIOPosix", package: "swift-nio"), .product(name: "NIOHTTP1", package: "swift-nio"),
            ],
            swiftSettings: strictWithC),
        .target(
            name: "WidgetDelivery",
            dependencies: [
                "PostgresClient", "ReloadWorkers", "JSON", "Waiting", "WidgetModel", "WidgetStore", logging, lifecycle,
                httpClient,
                jwt, nio, metrics,
                .product(name: "NIOHTTP1", package: "swift-nio"),
            ],
            swiftSettings: strict),
        .target(
            name: "WidgetAPI",
            dependencies: [
                "Charts", "KafkaClient", "PostgresClient", "WidgetEvents", "JSON", "Waiting", "WidgetModel",
                "WidgetStore",
                "ReloadIngest", "WidgetSimulator", logging, lifecycle,
                hummingbird, mustache, nio, jwt, crypto, metrics,
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOHTTPCompression", package: "swift-nio-extras"),
                .product(name: "NIOHTTPTypes", package: "swift-nio-extras"),
                .product(name: "NIOHTTPTypesHTTP1", package: "swift-nio-extras"),
            ],
            resources: [
                .embedInCode("Form/page.css"), .embedInCode("Form/form.css"), .embedInCode("Form/form.js"),
                .embedInCode("Console/Resources"),
            ],
            swiftSettings: strict),
        .target(
            name: "FreshetClient",
            dependencies: ["KafkaClient", "WidgetEvents", "JSON", "WidgetModel", logging, lifecycle, tracing],
            swiftSettings: strict),
        .target(
            name: "SampleProvider",
            dependencies: [
                "JSON", "Randomness", "WidgetModel", logging, lifecycle, hummingbird, nio, crypto, http2, tls, jwt,
                .product(name: "NIOHTTP1", package: "swift-nio"), .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "X509", package: "swift-certificates"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
            ],
            swiftSettings: strict),
        .target(name: "Randomness", swiftSettings: strict),
        .target(
            name: "WidgetSimulator",
            dependencies: ["Charts", "Randomness", "WidgetEvents", "JSON", "Waiting", "WidgetModel"],
            swiftSettings: strict),
        .target(
            name: "FreshetService",
            dependencies: [
                "KafkaClient", "PostgresClient", "JSON", "Waiting", "WidgetModel", "WidgetEvents", "WidgetStore",
                "ReloadIngest", "ReloadWorkers", "WidgetAPI", "WidgetDelivery", "FreshetClient", argumentParser,
                .product(name: "Yams", package: "Yams"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
                logging, lifecycle, httpClient, nio, metrics, tracing,
            ],
            swiftSettings: strict),
        .target(
            name: "ProviderTools",
            dependencies: [
                "FreshetService", "SampleProvider", "KafkaClient", "JSON", "Waiting", "WidgetModel", "WidgetEvents",
                "WidgetStore", "ReloadIngest", "ReloadWorkers", "WidgetAPI", "FreshetClient", "WidgetSimulator",
                "Charts", argumentParser, logging, lifecycle, hummingbird, nio,
            ],
            swiftSettings: strict),
        .executableTarget(
            name: "freshet",
            dependencies: [
                "FreshetService", "ProviderTools", "SampleProvider", "KafkaClient", "PostgresClient", "JSON",
                "WidgetModel", "WidgetEvents", "WidgetStore", "ReloadIngest", "ReloadWorkers", "WidgetAPI",
                "WidgetDelivery", "FreshetClient", "Randomness", "Charts", argumentParser, logging, lifecycle,
                httpClient, nio, .product(name: "NIOHTTP1", package: "swift-nio"),
            ],
            resources: [.embedInCode("Init/Templates")], swiftSettings: strict),
        .executableTarget(
            name: "freshet-load",
            dependencies: [
                "FreshetService", "SampleProvider", "KafkaClient", "PostgresClient", "JSON", "Randomness", "Charts",
                "WidgetModel", "WidgetEvents", "WidgetStore", "WidgetAPI", "WidgetDelivery",
                "ReloadWorkers", "FreshetClient", argumentParser, logging,
                lifecycle, httpClient, nio, jwt,
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "Histogram", package: "hdrhistogram-swift"),
            ],
            swiftSettings: strict),

        .target(
            name: "TestSupport",
            dependencies: [
                argumentParser, "Randomness",
                "KafkaClient", "PostgresClient", "JSON", "WidgetModel", "WidgetEvents", "WidgetStore", logging,
                lifecycle,
                hummingbird, nio, tls, http2, .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
            ],
            path: "Tests/TestSupport", exclude: ["browser.py"], swiftSettings: strict),
        .target(
            name: "Simulation", dependencies: ["Randomness", "WidgetModel"], path: "Tests/Simulation",
            swiftSettings: strict),
        .target(
            name: "Fuzzing", dependencies: ["FreshetService", "Randomness", "JSON", "WidgetModel", "WidgetEvents"],
            path: "Tests/Fuzzing", swiftSettings: strict),
        .executableTarget(
            name: "fuzz", dependencies: ["Fuzzing"], path: "Tests/Tools/Fuzz", swiftSettings: strict),
        .executableTarget(
            name: "simulate", dependencies: ["Simulation"], path: "Tests/Tools/Simulate", swiftSettings: strict),
        // The provider that `freshet init` writes, so that tests run it.
        .executableTarget(
            name: "init-provider", dependencies: [crypto, hummingbird], path: "Sources/freshet/Init/Templates",
            exclude: ["kinds.yaml", "package.txt", "provider.py"], sources: ["Provider.swift"]),
        .testTarget(
            name: "WaitingTests", dependencies: ["Waiting", "Randomness", "TestSupport"], swiftSettings: strict),
        .testTarget(
            name: "KafkaClientTests", dependencies: ["KafkaClient", "Waiting", "TestSupport", logging],
            swiftSettings: strict),
        .testTarget(
            name: "PostgresClientTests", dependencies: ["PostgresClient", "TestSupport", logging],
            swiftSettings: strict),
        .testTarget(
            name: "JSONTests", dependencies: ["JSON", "Randomness", "TestSupport"], swiftSettings: strict),
        .testTarget(
            name: "WidgetModelTests",
            dependencies: ["JSON", "WidgetModel", "Simulation", "Randomness", "TestSupport", metrics],
            swiftSettings: strict),
        .testTarget(
            name: "WidgetEventsTests",
            dependencies: [
                "WidgetEvents", "JSON", "WidgetModel", "FreshetService", "Fuzzing", "Randomness", "TestSupport",
            ],
            swiftSettings: strict),
        .testTarget(
            name: "WidgetSimulatorTests",
            dependencies: ["WidgetSimulator", "Randomness", "WidgetEvents", "JSON", "WidgetModel", "TestSupport"],
            swiftSettings: strict),
        .testTarget(
            name: "WidgetStoreTests",
            dependencies: [
                "WidgetStore", "PostgresClient", "JSON", "WidgetModel", "Randomness", "TestSupport", logging,
            ],
            swiftSettings: strict),
        .testTarget(
            name: "ReloadIngestTests",
            dependencies: [
                "ReloadIngest", "KafkaClient", "PostgresClient", "WidgetEvents", "JSON", "Waiting", "WidgetModel",
                "WidgetStore",
                "Randomness", "TestSupport", logging, lifecycle,
            ],
            swiftSettings: strict),
        .testTarget(
            name: "ReloadWorkersTests",
            dependencies: [
                "ReloadWorkers", "ReloadIngest", "KafkaClient", "PostgresClient", "WidgetEvents", "JSON", "Waiting",
                "WidgetModel",
                "WidgetSimulator", "WidgetStore", "Randomness", "TestSupport", logging, lifecycle, httpClient, nio, tls,
                .product(name: "NIOEmbedded", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ],
            swiftSettings: strict),
        .testTarget(
            name: "WidgetDeliveryTests",
            dependencies: [
                "WidgetDelivery", "ReloadWorkers", "SampleProvider", "PostgresClient", "JSON", "Waiting", "WidgetModel",
                "WidgetStore",
                "TestSupport", logging, httpClient, jwt, nio, .product(name: "NIOPosix", package: "swift-nio"),
            ],
            swiftSettings: strict),
        .testTarget(
            name: "WidgetAPITests",
            dependencies: [
                "WidgetAPI", "Charts", "PostgresClient", "JSON", "WidgetModel", "WidgetStore",
                "TestSupport", logging, hummingbird, crypto, lifecycle, metrics,
                .product(name: "HummingbirdTesting", package: "hummingbird"),
            ],
            exclude: ["Form/controls.py", "Form/form.py", "Console/console.py"],
            swiftSettings: strict),
        .testTarget(
            name: "FreshetClientTests",
            dependencies: [
                "FreshetClient", "KafkaClient", "WidgetEvents", "JSON", "WidgetModel", "Randomness", "TestSupport",
                logging,
                lifecycle, tracing,
            ],
            swiftSettings: strict),
        .testTarget(
            name: "SampleProviderTests",
            dependencies: ["SampleProvider", "JSON", "WidgetModel", "TestSupport", logging, lifecycle, crypto],
            swiftSettings: strict),
        .testTarget(
            name: "FreshetServiceTests",
            dependencies: [
                "FreshetService", "SampleProvider", "KafkaClient", "ReloadWorkers", "WidgetAPI",
                "WidgetDelivery", "JSON", "WidgetModel", "Fuzzing", "TestSupport", logging,
            ],
            swiftSettings: strict),
        .testTarget(
            name: "FreshetCommandTests",
            dependencies: [
                "freshet", "FreshetService", "ProviderTools", "SampleProvider", "KafkaClient", "PostgresClient", "JSON",
                "WidgetModel", "WidgetEvents", "WidgetStore", "FreshetClient", "ReloadIngest", "ReloadWorkers",
                "WidgetAPI", "TestSupport", logging, crypto, httpClient, hummingbird, nio, argumentParser,
                "Charts", .product(name: "NIOHTTP1", package: "swift-nio"), .product(name: "Yams", package: "Yams"),
            ],
            exclude: ["Preview/preview.py", "Simulate/report.py"],
            swiftSettings: strict),
        .testTarget(
            name: "FreshetLoadTests",
            dependencies: [
                "freshet-load", "FreshetService", "SampleProvider", "PostgresClient", "JSON", "Randomness", "Charts",
                "WidgetModel", "WidgetEvents", "WidgetStore", "TestSupport", argumentParser,
                .product(name: "Histogram", package: "hdrhistogram-swift"),
            ],
            swiftSettings: strict),
        .testTarget(
            name: "ChaosTests",
            dependencies: [
                "freshet", "KafkaClient", "PostgresClient", "JSON", "WidgetModel", "WidgetEvents", "WidgetStore",
                "WidgetAPI", "FreshetClient", "Fuzzing", "Randomness", "SampleProvider", "TestSupport", logging,
                lifecycle,
                crypto, hummingbird, httpClient, nio, http2, tls, .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
            ],
            swiftSettings: strict),
    ]
)
