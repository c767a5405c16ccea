// SPDX-License-Identifier: Apache-2.0
//
// .NET that computes in known chains of calls, one after the other, for test-long-dotnet.py. Each begins with a
// method of Chains and ends in Burn. No method is inlined but those of the iterator.
//
// usage: dotnet victim-dotnet.dll            prints `ready`, runs until it is killed
//        dotnet victim-dotnet.dll --print    .NET's own word on each chain (StackTrace): a line for each call of
//                                            Burn, methods of this file with blanks between, the outermost first
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Runtime.CompilerServices;

public static class Work {
    public static bool Print;

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void Say() {
        var frames = new StackTrace(2).GetFrames();
        var names = new List<string>();
        for (int i = frames.Length - 1; i >= 0; i--) {
            var method = frames[i].GetMethod();
            if (method.Module.Name == "victim-dotnet.dll")
                names.Add(method.DeclaringType.FullName + "::" + method.Name);
        }
        names.Add("Work::Burn");
        Console.WriteLine(string.Join(" ", names));
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static long Burn(long seed) {
        long total = seed;
        if (Print)
            Say();
        for (int i = 0; i < 4000; i++)
            total = (total * 31 + i) & 0xffff;
        return total;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static long Hot(long n) { return Burn(n) + 1; }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static long Deep(int depth) { return depth > 0 ? Deep(depth - 1) + 1 : Burn(8); }
}

public interface IShape {
    long Area();
}

public class Shape : IShape {
    [MethodImpl(MethodImplOptions.NoInlining)]
    public virtual long Area() { return Work.Burn(2) + 1; }
}

public class Square : Shape {
    [MethodImpl(MethodImplOptions.NoInlining)]
    public override long Area() { return base.Area() + 1; }
}

public class Box<T> {
    [MethodImpl(MethodImplOptions.NoInlining)]
    public long Put(T value) { return Work.Hot(value.GetHashCode() & 3) + 1; }
}

public static class Chains {
    static readonly IShape square = new Square();
    static readonly List<long> list = new List<long>();
    static readonly Box<string> texts = new Box<string>();
    static readonly Box<long> numbers = new Box<long>();

    [MethodImpl(MethodImplOptions.NoInlining)]
    static int Compare(long a, long b) { Work.Burn(a); return a.CompareTo(b); }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static bool IsBelow(long a) { return Work.Burn(a) < 0; }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long Added(long a) { return Work.Burn(a) + 1; }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static IEnumerable<long> Numbers() {
        yield return Work.Burn(4);
        yield return Work.Burn(5);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long Throws() { throw new InvalidOperationException(); }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static long Plain() { return Work.Hot(1) + 1; }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static long Recursion() { return Work.Deep(30) + 1; }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static long Virtual() { return square.Area() + 1; }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static long Sorted() {
        list.Clear();
        list.Add(3);
        list.Add(1);
        list.Add(2);
        list.Sort(Compare);
        return list[0];
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static long Generic() { return texts.Put("a") + numbers.Put(7); }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static long Iterated() {
        long sum = 0;
        foreach (long number in Numbers())
            sum += number;
        return sum;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static long Delegate() {
        Func<long, long> add = Added;
        return add(3) + 1;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static long Finally() {
        long sum = 0;
        try {
            sum += Work.Hot(2);
        } finally {
            sum += Work.Hot(3);
        }
        return sum;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static long Caught() {
        try {
            return Throws();
        } catch (InvalidOperationException) {
            return Work.Hot(4) + 1;
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static long Found() {
        long last = list.Find(IsBelow);
        return last + 1;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static long All() {
        return Plain() + Recursion() + Virtual() + Sorted() + Generic() + Iterated() + Delegate() + Finally() + Found();
    }
}

public static class Victim {
    public static void Main(string[] arguments) {
        Work.Print = arguments.Length > 0;
        if (Work.Print) {
            Chains.All();
            Chains.Caught();
            return;
        }
        Console.WriteLine("ready");
        for (int i = 0;; i++) {
            Chains.All();
            if (i % 64 == 0)
                Chains.Caught();
        }
    }
}
